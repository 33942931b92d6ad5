//! Boxes of memory as rows of bytes, and copying them: short rows by loops over a fixed length, long ones as they are, and those of which the short side lies
//! across in tiles. Halos and arrays use them.

use crate::Result;
use kumiki_mem::{fetch_to_read, fetch_to_write, Span};
use std::ops::Range;

/// From here on a row is copied by itself; shorter ones are gathered first.
pub(crate) const LONG_ROW: usize = 256;
/// Bytes that stay in the innermost cache between being gathered and scattered.
pub(crate) const STAGE_BYTES: usize = 8 << 10;
/// The same of rows that lie across: several of them, so that a tile is as long as it is wide.
const TURNED_STAGE_BYTES: usize = 256 << 10;
/// Rows that lie farther apart than this are asked for so many rows ahead: the processor does not see by itself where the next ones are.
const FAR_BYTES: usize = 256;
const AHEAD: usize = 16;
/// So many at most, whatever the steps are.
const MOST_TURNED_BYTES: usize = 1 << 20;
const TURNED_STEPS: usize = 8;

/// Where rows are put one behind the other.
pub(crate) trait Sink {
    /// So many bytes from a place on, if they can be lent.
    fn lent(&mut self, at: usize, bytes: usize) -> Option<&mut [u8]>;
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()>;
}

/// Where rows lie one behind the other.
pub(crate) trait Source {
    /// So many bytes from a place on, if they can be lent.
    fn lent(&self, at: usize, bytes: usize) -> Option<&[u8]>;
    fn read(&self, at: usize, into: &mut [u8]) -> Result<()>;
}

impl Sink for [u8] {
    #[inline]
    fn lent(&mut self, at: usize, bytes: usize) -> Option<&mut [u8]> {
        self.get_mut(at..at + bytes)
    }

    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Source for [u8] {
    #[inline]
    fn lent(&self, at: usize, bytes: usize) -> Option<&[u8]> {
        self.get(at..at + bytes)
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self[at..at + into.len()]);
        Ok(())
    }
}

/// Memory that others can write is copied, and never lent.
impl Sink for Span<'_> {
    #[inline]
    fn lent(&mut self, _at: usize, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        Span::write(*self, at as u64, bytes)
    }
}

impl Source for Span<'_> {
    #[inline]
    fn lent(&self, _at: usize, _bytes: usize) -> Option<&[u8]> {
        None
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        Span::read(*self, at as u64, into)
    }
}

/// A box of a field: rows of equal length, at places that nested loops give. In bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Section {
    start: usize,
    row: usize,
    /// How many steps there are and how far each goes; the last is the innermost loop. None has fewer than two.
    loops: Vec<(usize, isize)>,
    rows: usize,
}

impl Section {
    /// The cells of a field with these extents that are in a range of each dimension: where it begins, and its length.
    pub(crate) fn new(padded: &[usize], ranges: &[(usize, usize)], element: usize) -> Section {
        let (mut start, mut stride) = (0, element);
        let mut loops = Vec::with_capacity(padded.len());
        for (extent, (first, count)) in padded.iter().zip(ranges).rev() {
            start += first * stride;
            loops.push((*count, stride as isize));
            stride *= extent;
        }
        loops.reverse();
        Section::of_loops(start, element, loops)
    }

    /// Elements at places that nested loops give: how many steps each has and how far each goes, the last is the innermost. In bytes.
    pub(crate) fn of_loops(start: usize, element: usize, mut loops: Vec<(usize, isize)>) -> Section {
        if element == 0 || loops.iter().any(|(count, _)| *count == 0) {
            return Section { start: 0, row: 0, loops: Vec::new(), rows: 0 };
        }
        let mut row = element;
        loops.retain(|(count, _)| *count > 1);
        // Rows that touch are one.
        while let Some((count, _)) = loops.pop_if(|(_, stride)| *stride == row as isize) {
            row *= count;
        }
        let rows = loops.iter().map(|(count, _)| *count).product();
        Section { start, row, loops, rows }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.row * self.rows
    }

    /// Bytes of memory that it takes beside itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.loops.capacity() * size_of::<(usize, isize)>()) as u64
    }

    /// The same in rows of so many bytes, of which its own are a multiple.
    fn in_rows_of(&self, row: usize) -> Section {
        let mut loops = self.loops.clone();
        let mut rows = self.rows;
        if row < self.row {
            loops.push((self.row / row, row as isize));
            rows *= self.row / row;
        }
        Section { start: self.start, row, loops, rows }
    }

    /// Where its elements of so many bytes lie, in elements: the first, and nested loops. What a loop that stays in its place names again and again
    /// comes once.
    pub(crate) fn elements(&self, element: usize) -> (usize, Vec<(usize, isize)>) {
        let far = self.loops.iter().filter(|(_, stride)| *stride != 0);
        let loops = far.map(|&(count, stride)| (count, stride / element as isize));
        (self.start / element, loops.chain([(self.row / element, 1)]).collect())
    }

    /// The same section of a memory in which its elements, each once, follow each other from a place on.
    pub(crate) fn packed(&self, start: usize) -> Section {
        let mut next = self.row;
        let mut loops = self.loops.clone();
        for (count, stride) in loops.iter_mut().rev().filter(|(_, stride)| *stride != 0) {
            *stride = next as isize;
            next *= *count;
        }
        Section::of_loops(start, self.row, loops)
    }

    /// The rows, from the first on.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { section: self, next: 0, begun: 0 }
    }

    /// If the innermost loop takes large steps and another one goes from row to row: the number of that loop. Such a section lies across: rows one behind the other
    /// are far from each other in the field, and those side by side there are far from each other in its order.
    fn across(&self) -> Option<usize> {
        let outer = self.loops.len().checked_sub(1)?;
        let is_short = matches!(self.row, 1 | 2 | 4 | 8 | 16 | 24 | 32);
        self.loops[..outer].iter().position(|(_, stride)| is_short && *stride == self.row as isize)
    }
}

/// Goes through the rows of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    section: &'a Section,
    next: usize,
    /// Bytes of the next row that are done.
    begun: usize,
}

/// Steps of a loop from row to row, and all that is inside each of them: rows that are copied in tiles.
struct Slab<'a> {
    first: usize,
    steps: usize,
    /// Rows of a step.
    rows: usize,
    middle: &'a [(usize, isize)],
    inner: (usize, isize),
}

/// Rows at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first: usize,
    pub(crate) stride: isize,
    pub(crate) count: usize,
}

impl Run {
    /// Where one of them begins.
    #[inline]
    pub(crate) fn at(self, index: usize) -> usize {
        self.first.wrapping_add_signed(index as isize * self.stride)
    }

    /// Whether each lies in other lines of the cache, and not beside those of the one before.
    #[inline]
    fn is_far(self) -> bool {
        self.stride.unsigned_abs() >= FAR_BYTES
    }

    /// All of them, where they touch.
    #[inline]
    fn bytes(self, row: usize) -> Range<usize> {
        self.first..self.first + self.count * row
    }
}

impl Rows<'_> {
    /// The next rows of the innermost loop, at most so many.
    pub(crate) fn run(&mut self, most: usize) -> Option<Run> {
        let Section { start, loops, rows, .. } = self.section;
        if self.next >= *rows || most == 0 {
            return None;
        }
        let (inner, stride) = loops.last().copied().unwrap_or((1, 0));
        let mut first = start.wrapping_add_signed((self.next % inner) as isize * stride);
        let mut outer = self.next / inner;
        for (count, stride) in loops.iter().rev().skip(1) {
            first = first.wrapping_add_signed((outer % count) as isize * stride);
            outer /= count;
        }
        let count = most.min(inner - self.next % inner);
        self.next += count;
        Some(Run { first, stride, count })
    }

    /// Copies as many of the next rows of a field as there is room for. Gives their bytes.
    pub(crate) fn gather(&mut self, field: &[u8], into: &mut [u8]) -> usize {
        let row = self.section.row;
        let mut at = 0;
        while let Some(run) = self.run((into.len() - at).checked_div(row).unwrap_or(0)) {
            let place = &mut into[at..at + run.count * row];
            match row {
                _ if run.stride == row as isize => place.copy_from_slice(&field[run.bytes(row)]),
                1 => gather_run::<1>(field, run, place),
                2 => gather_run::<2>(field, run, place),
                4 => gather_run::<4>(field, run, place),
                8 => gather_run::<8>(field, run, place),
                16 => gather_run::<16>(field, run, place),
                24 => gather_run::<24>(field, run, place),
                32 => gather_run::<32>(field, run, place),
                64 => gather_run::<64>(field, run, place),
                _ => place.chunks_exact_mut(row).enumerate().for_each(|(index, place)| {
                    let from = run.at(index);
                    place.copy_from_slice(&field[from..from + row]);
                }),
            }
            at += place.len();
        }
        at
    }

    /// Copies as many of the next rows of a field from other bytes as there are. Gives how many bytes that were.
    pub(crate) fn scatter(&mut self, from: &[u8], field: &mut [u8]) -> usize {
        let row = self.section.row;
        let mut at = 0;
        while let Some(run) = self.run((from.len() - at).checked_div(row).unwrap_or(0)) {
            let place = &from[at..at + run.count * row];
            match row {
                _ if run.stride == row as isize => field[run.bytes(row)].copy_from_slice(place),
                1 => scatter_run::<1>(place, run, field),
                2 => scatter_run::<2>(place, run, field),
                4 => scatter_run::<4>(place, run, field),
                8 => scatter_run::<8>(place, run, field),
                16 => scatter_run::<16>(place, run, field),
                24 => scatter_run::<24>(place, run, field),
                32 => scatter_run::<32>(place, run, field),
                64 => scatter_run::<64>(place, run, field),
                _ => place.chunks_exact(row).enumerate().for_each(|(index, place)| {
                    let to = run.at(index);
                    field[to..to + row].copy_from_slice(place);
                }),
            }
            at += place.len();
        }
        at
    }
}

impl<'a> Rows<'a> {
    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.section.bytes() - self.next * self.section.row - self.begun
    }

    /// Goes past the next bytes, if they are one behind the other in the field: where they are there.
    pub(crate) fn pass_together(&mut self, bytes: usize) -> Option<Range<usize>> {
        (self.left() > 0 && self.section.row - self.begun >= bytes).then(|| self.part(bytes))
    }

    /// Where the next bytes of the next row are in the field: as many as that has, but not more than asked for.
    fn part(&mut self, most: usize) -> Range<usize> {
        let (mut ahead, row) = (*self, self.section.row);
        let Some(run) = ahead.run(1) else { return 0..0 };
        let (first, bytes) = (run.first + self.begun, most.min(row - self.begun));
        self.begun += bytes;
        if self.begun == row {
            (self.next, self.begun) = (self.next + 1, 0);
        }
        first..first + bytes
    }

    /// The rows that come next, at most so many: in tiles, if they lie across and there are enough of them; otherwise how many go one by one.
    fn next_rows(&self, across: Option<usize>, most: usize) -> std::result::Result<Slab<'a>, usize> {
        let Some(at) = across else { return Err(most) };
        let loops = &self.section.loops[..];
        let rows: usize = loops[at + 1..].iter().map(|(count, _)| *count).product();
        let past = self.next % rows;
        let steps = (most / rows).min(loops[at].0 - self.next / rows % loops[at].0);
        if past != 0 || steps < 2 {
            return Err(most.min(rows - past));
        }
        let mut ahead = *self;
        let first = ahead.run(1).map_or(0, |run| run.first);
        let (middle, inner) = (&loops[at + 1..loops.len() - 1], loops[loops.len() - 1]);
        Ok(Slab { first, steps, rows, middle, inner })
    }

    /// Copies the next bytes of a field, at most so many, to a place where they lie one behind the other; also a part of a row. Gives how many. The stage has room for a
    /// row that is not long.
    pub(crate) fn pack(
        &mut self,
        field: &[u8],
        (sink, at): (&mut (impl Sink + ?Sized), usize),
        most: usize,
        stage: &mut [u8],
    ) -> Result<usize> {
        let (row, across, whole) = (self.section.row, self.section.across(), most.min(self.left()));
        let mut done = 0;
        while done < whole {
            let (left, to) = (whole - done, at + done);
            if self.begun > 0 || left < row {
                let part = self.part(left);
                sink.write(to, &field[part.clone()])?;
                done += part.len();
                continue;
            }
            let rows = match self.next_rows(across, left / row) {
                Ok(slab) => {
                    match row {
                        1 => turn::<1, 32>(field, &slab, sink, to)?,
                        2 => turn::<2, 32>(field, &slab, sink, to)?,
                        4 => turn::<4, 32>(field, &slab, sink, to)?,
                        8 => turn::<8, 32>(field, &slab, sink, to)?,
                        16 => turn::<16, 16>(field, &slab, sink, to)?,
                        24 => turn::<24, 16>(field, &slab, sink, to)?,
                        _ => turn::<32, 16>(field, &slab, sink, to)?,
                    }
                    self.next += slab.steps * slab.rows;
                    done += slab.steps * slab.rows * row;
                    continue;
                }
                Err(rows) => rows,
            };
            if row >= LONG_ROW {
                let Some(run) = self.run(rows) else { break };
                for index in 0..run.count {
                    let from = run.at(index);
                    sink.write(at + done, &field[from..from + row])?;
                    done += row;
                }
            } else if let Some(place) = sink.lent(to, rows * row) {
                done += self.gather(field, place);
            } else {
                let room = rows.min(stage.len() / row) * row;
                let bytes = self.gather(field, &mut stage[..room]);
                sink.write(to, &stage[..bytes])?;
                done += bytes;
            }
        }
        Ok(done)
    }

    /// Copies bytes that lie one behind the other from a place on to the next ones of a field, at most so many; also a part of a row. Gives how many. The stage has
    /// room for a row that is not long.
    pub(crate) fn unpack(
        &mut self,
        (source, at): (&(impl Source + ?Sized), usize),
        field: &mut [u8],
        most: usize,
        stage: &mut [u8],
    ) -> Result<usize> {
        let (row, whole) = (self.section.row, most.min(self.left()));
        let mut done = 0;
        while done < whole {
            let (left, from) = (whole - done, at + done);
            if self.begun > 0 || left < row {
                let part = self.part(left);
                done += part.len();
                source.read(from, &mut field[part])?;
            } else if row >= LONG_ROW {
                let Some(run) = self.run(left / row) else { break };
                for index in 0..run.count {
                    let to = run.at(index);
                    source.read(at + done, &mut field[to..to + row])?;
                    done += row;
                }
            } else if let Some(place) = source.lent(from, left / row * row) {
                done += self.scatter(place, field);
            } else {
                let room = (left / row).min(stage.len() / row) * row;
                source.read(from, &mut stage[..room])?;
                done += self.scatter(&stage[..room], field);
            }
        }
        Ok(done)
    }
}

/// Copies rows of a length that the compiler knows in tiles, so that neither side goes from one far place to the next for each of them.
fn turn<const ROW: usize, const TILE: usize>(
    field: &[u8],
    slab: &Slab<'_>,
    sink: &mut (impl Sink + ?Sized),
    at: usize,
) -> Result<()> {
    let mut tile = [[[0; ROW]; TILE]; TILE];
    let (count, stride) = slab.inner;
    let starts = slab.middle.iter().map(|(count, _)| *count).product();
    let middle = Section { start: slab.first, row: ROW, loops: slab.middle.to_vec(), rows: starts };
    let mut begins = middle.rows();
    for number in 0..starts {
        let Some(Run { first: start, .. }) = begins.run(1) else { break };
        for across in (0..count).step_by(TILE) {
            let wide = TILE.min(count - across);
            for step in (0..slab.steps).step_by(TILE) {
                let tall = TILE.min(slab.steps - step);
                for place in 0..wide {
                    let from = start.wrapping_add_signed((across + place) as isize * stride) + step * ROW;
                    let (values, _) = field[from..from + tall * ROW].as_chunks::<ROW>();
                    for (line, value) in tile.iter_mut().zip(values) {
                        line[place] = *value;
                    }
                }
                for (index, line) in tile[..tall].iter().enumerate() {
                    let to = at + ((step + index) * slab.rows + number * count + across) * ROW;
                    sink.write(to, line[..wide].as_flattened())?;
                }
            }
        }
    }
    Ok(())
}

/// With a length that the compiler knows a row is one or two instructions.
#[inline]
fn gather_run<const N: usize>(field: &[u8], run: Run, into: &mut [u8]) {
    let (places, _) = into.as_chunks_mut::<N>();
    for (index, place) in places.iter_mut().enumerate() {
        let from = run.at(index);
        if run.is_far() {
            fetch_to_read(field.as_ptr().wrapping_add(run.at(index + AHEAD)));
        }
        place.copy_from_slice(&field[from..from + N]);
    }
}

#[inline]
fn scatter_run<const N: usize>(from: &[u8], run: Run, field: &mut [u8]) {
    let (places, _) = from.as_chunks::<N>();
    for (index, place) in places.iter().enumerate() {
        let to = run.at(index);
        if run.is_far() {
            fetch_to_write(field.as_ptr().wrapping_add(run.at(index + AHEAD)));
        }
        field[to..to + N].copy_from_slice(place);
    }
}

/// Copies the rows of one section of a field to those of another, which has as many of the same length.
pub(crate) fn copy_inside(field: &mut [u8], from: &Section, to: &Section) {
    let (mut sources, mut targets, row) = (from.rows(), to.rows(), from.row);
    while let (Some(source), Some(target)) = (sources.run(usize::MAX), targets.run(usize::MAX)) {
        for index in 0..source.count.min(target.count) {
            let first = source.at(index);
            field.copy_within(first..first + row, target.at(index));
        }
    }
}

/// Copies the elements of a section of one memory to those of a section of another, which has as many and the same loops: the shorter rows of both are whole
/// parts of the longer ones.
pub(crate) fn copy_between(from: &[u8], source: &Section, to: &mut [u8], target: &Section) {
    let row = source.row.min(target.row);
    let (source, target) = (source.in_rows_of(row), target.in_rows_of(row));
    let (mut sources, mut targets) = (source.rows(), target.rows());
    if row < LONG_ROW {
        let room = source.across().map_or(STAGE_BYTES / row.max(1) * row, |at| {
            // Whole steps, and so many that tiles are whole, too.
            let step =
                source.loops[at + 1..].iter().fold(row, |bytes, (count, _)| bytes.saturating_mul(*count));
            (TURNED_STAGE_BYTES / step).max(TURNED_STEPS).saturating_mul(step)
        });
        // Whole rows: what lies across with long steps goes in parts of them.
        let most = (MOST_TURNED_BYTES / row.max(1)).max(1) * row;
        let room = room.min(source.bytes()).min(most);
        let mut stage = vec![0; room];
        while let Ok(bytes @ 1..) = sources.pack(from, (&mut stage[..], 0), room, &mut []) {
            targets.scatter(&stage[..bytes], to);
        }
        return;
    }
    while let Some(one) = sources.run(usize::MAX) {
        let mut done = 0;
        while let Some(other) = targets.run(one.count - done) {
            for index in 0..other.count {
                let (from_at, to_at) = (one.at(done + index), other.at(index));
                to[to_at..to_at + row].copy_from_slice(&from[from_at..from_at + row]);
            }
            done += other.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_touch_are_one_and_parts_of_any_length_make_the_whole() {
        let whole = Section::new(&[4, 5, 6], &[(1, 2), (0, 5), (0, 6)], 8);
        assert_eq!((whole.row, whole.rows, whole.start, whole.bytes()), (480, 1, 240, 480));
        assert!(Section::new(&[4, 5, 6], &[(1, 2), (0, 0), (0, 6)], 8).is_empty());
        let field: Vec<u8> = (0..4 * 5 * 6 * 3).map(|byte| (byte % 251) as u8).collect();
        for ranges in [
            [(0, 4), (2, 3), (5, 1)],
            [(3, 1), (0, 5), (1, 4)],
            [(0, 1), (4, 1), (0, 1)],
            [(1, 3), (1, 1), (2, 2)],
        ] {
            for element in [1, 2, 3] {
                let section = Section::new(&[4, 5, 6], &ranges, element);
                let mut places = Vec::new();
                let [one, two, three] = ranges.map(|(first, count)| first..first + count);
                for (x, y, z) in one
                    .flat_map(|x| two.clone().map(move |y| (x, y)))
                    .flat_map(|(x, y)| three.clone().map(move |z| (x, y, z)))
                {
                    let at = ((x * 5 + y) * 6 + z) * element;
                    places.extend(at..at + element);
                }
                assert_eq!(section.bytes(), places.len());
                for room in [section.row, 2 * section.row + 1, 1000] {
                    let (mut rows, mut back, mut came, mut copy) =
                        (section.rows(), section.rows(), Vec::new(), vec![0; field.len()]);
                    let mut stage = vec![0; room];
                    loop {
                        let bytes = rows.gather(&field, &mut stage);
                        if bytes == 0 {
                            break;
                        }
                        came.extend_from_slice(&stage[..bytes]);
                        assert_eq!(back.scatter(&stage[..bytes], &mut copy), bytes);
                    }
                    assert_eq!(came, places.iter().map(|at| field[*at]).collect::<Vec<_>>());
                    assert!(places.iter().all(|at| copy[*at] == field[*at]));
                    assert_eq!(
                        copy.iter().filter(|byte| **byte != 0).count(),
                        came.iter().filter(|byte| **byte != 0).count()
                    );
                }
            }
        }
    }

    /// What the loops of a section say, one element after the other.
    fn places(start: usize, loops: &[(usize, isize)]) -> Vec<usize> {
        let mut all = vec![start];
        for (count, stride) in loops {
            let next = |first: &usize| {
                let first = *first;
                (0..*count).map(move |step| first.wrapping_add_signed(step as isize * stride))
            };
            all = all.iter().flat_map(next).collect();
        }
        all
    }

    #[test]
    fn what_lies_across_is_packed_in_tiles_whatever_the_parts_are() {
        let world = crate::World::init().unwrap();
        for element in [1, 2, 4, 8, 12, 16, 24, 32] {
            let wide = |count: usize| (count * element) as isize;
            for loops in [
                // A matrix with its rows and columns exchanged, also with a loop in between, one outside, and backwards.
                vec![(70, wide(1)), (45, wide(80))],
                vec![(40, wide(1)), (3, wide(2000)), (33, wide(50))],
                vec![(2, wide(5000)), (33, wide(1)), (65, wide(40))],
                vec![(9, wide(1)), (35, -wide(11))],
            ] {
                let start =
                    if loops.iter().any(|(_, stride)| *stride < 0) { 36 * 11 * element } else { element };
                let section = Section::of_loops(start, element, loops.clone());
                assert_eq!(section.across().is_some(), element != 12);
                let field: Vec<u8> = (0..10_000 * element).map(|byte| (byte * 7 % 251) as u8).collect();
                let wanted: Vec<u8> =
                    places(start, &loops).iter().flat_map(|at| &field[*at..at + element]).copied().collect();
                let mut stage = vec![0; STAGE_BYTES];
                for most in [usize::MAX, 20 * 45 * element, 1000, 7] {
                    let (mut rows, mut packed, mut at) = (section.rows(), vec![0; wanted.len()], 0);
                    while rows.left() > 0 {
                        at += rows.pack(&field, (&mut packed[..], at), most, &mut []).unwrap();
                    }
                    assert!(at == wanted.len() && packed == wanted, "{element} bytes, {loops:?}, {most}");
                    // The same through memory of the arena, and back.
                    let region = world.alloc::<u8>(wanted.len()).unwrap();
                    let mut span = world.local().span(region.address(), wanted.len() as u64).unwrap();
                    let (mut rows, mut back, mut copy) =
                        (section.rows(), section.rows(), vec![0; field.len()]);
                    let (mut at, mut came) = (0, 0);
                    while rows.left() > 0 {
                        at += rows.pack(&field, (&mut span, at), most, &mut stage).unwrap();
                        came += back.unpack((&span, came), &mut copy, most, &mut stage).unwrap();
                    }
                    assert_eq!((at, came), (wanted.len(), wanted.len()));
                    span.read(0, &mut packed).unwrap();
                    assert!(packed == wanted);
                    assert!(places(start, &loops)
                        .iter()
                        .all(|at| copy[*at..][..element] == field[*at..][..element]));
                }
                let counts: Vec<usize> = loops.iter().map(|(count, _)| *count).collect();
                let ranges: Vec<(usize, usize)> = counts.iter().map(|count| (0, *count)).collect();
                let (target, mut to) = (Section::new(&counts, &ranges, element), vec![0; wanted.len()]);
                copy_between(&field, &section, &mut to, &target);
                assert!(to == wanted);
            }
        }
        world.finalize().unwrap();
    }
}
