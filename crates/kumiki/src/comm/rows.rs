//! Boxes of memory as rows of bytes, and copying them: short rows by loops over a fixed length, long ones as they are. Halos and arrays use them.

/// From here on a row is copied by itself; shorter ones are gathered first.
pub(crate) const LONG_ROW: usize = 256;
/// Bytes that stay in the innermost cache between being gathered and scattered.
const STAGE_BYTES: usize = 8 << 10;

/// A box of a field: rows of equal length, at places that nested loops give. In bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
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

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row
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

    /// The rows, from the first on.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { section: self, next: 0 }
    }
}

/// Goes through the rows of a section.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    section: &'a Section,
    next: usize,
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

/// With a length that the compiler knows a row is one or two instructions.
#[inline]
fn gather_run<const N: usize>(field: &[u8], run: Run, into: &mut [u8]) {
    let (places, _) = into.as_chunks_mut::<N>();
    for (index, place) in places.iter_mut().enumerate() {
        let from = run.at(index);
        place.copy_from_slice(&field[from..from + N]);
    }
}

#[inline]
fn scatter_run<const N: usize>(from: &[u8], run: Run, field: &mut [u8]) {
    let (places, _) = from.as_chunks::<N>();
    for (index, place) in places.iter().enumerate() {
        let to = run.at(index);
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
        let mut stage = [0; STAGE_BYTES];
        loop {
            match sources.gather(from, &mut stage) {
                0 => return,
                bytes => targets.scatter(&stage[..bytes], to),
            };
        }
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
                for room in [section.row_bytes(), 2 * section.row_bytes() + 1, 1000] {
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
}
