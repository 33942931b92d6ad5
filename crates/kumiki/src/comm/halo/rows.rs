//! Boxes of a field as rows of bytes, and copying them: short rows by loops over a fixed length, long ones as they are.

/// From here on a row is copied by itself; shorter ones are gathered first.
pub(super) const LONG_ROW: usize = 256;

/// A box of a field: rows of equal length, at places that nested loops give. In bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    start: usize,
    row: usize,
    /// How many steps there are and how far each goes; the last is the innermost loop. None has fewer than two.
    loops: Vec<(usize, usize)>,
    rows: usize,
}

impl Section {
    /// The cells of a field with these extents that are in a range of each dimension: where it begins, and its length.
    pub(super) fn new(padded: &[usize], ranges: &[(usize, usize)], element: usize) -> Section {
        let (mut start, mut stride, mut row) = (0, element, element);
        let mut loops = Vec::new();
        for (extent, (first, count)) in padded.iter().zip(ranges).rev() {
            start += first * stride;
            match *count {
                0 => return Section { start: 0, row: 0, loops: Vec::new(), rows: 0 },
                1 => {}
                // Rows that touch are one.
                count if loops.is_empty() && stride == row => row *= count,
                count => loops.push((count, stride)),
            }
            stride *= extent;
        }
        loops.reverse();
        let rows = loops.iter().map(|(count, _)| *count).product();
        Section { start, row, loops, rows }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of all rows.
    pub(super) fn bytes(&self) -> usize {
        self.row * self.rows
    }

    /// Bytes of memory that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.loops.capacity() * size_of::<(usize, usize)>()) as u64
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.row
    }

    /// The rows, from the first on.
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { section: self, next: 0 }
    }
}

/// Goes through the rows of a section.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    section: &'a Section,
    next: usize,
}

/// Rows at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl Rows<'_> {
    /// The next rows of the innermost loop, at most so many.
    pub(super) fn run(&mut self, most: usize) -> Option<Run> {
        let Section { start, loops, rows, .. } = self.section;
        if self.next >= *rows || most == 0 {
            return None;
        }
        let (inner, stride) = loops.last().copied().unwrap_or((1, 0));
        let mut first = start + self.next % inner * stride;
        let mut outer = self.next / inner;
        for (count, stride) in loops.iter().rev().skip(1) {
            first += outer % count * stride;
            outer /= count;
        }
        let count = most.min(inner - self.next % inner);
        self.next += count;
        Some(Run { first, stride, count })
    }

    /// Copies as many of the next rows of a field as there is room for. Gives their bytes.
    pub(super) fn gather(&mut self, field: &[u8], into: &mut [u8]) -> usize {
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
                    let from = run.first + index * run.stride;
                    place.copy_from_slice(&field[from..from + row]);
                }),
            }
            at += place.len();
        }
        at
    }

    /// Copies as many of the next rows of a field from other bytes as there are. Gives how many bytes that were.
    pub(super) fn scatter(&mut self, from: &[u8], field: &mut [u8]) -> usize {
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
                    let to = run.first + index * run.stride;
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
        let from = run.first + index * run.stride;
        place.copy_from_slice(&field[from..from + N]);
    }
}

#[inline]
fn scatter_run<const N: usize>(from: &[u8], run: Run, field: &mut [u8]) {
    let (places, _) = from.as_chunks::<N>();
    for (index, place) in places.iter().enumerate() {
        let to = run.first + index * run.stride;
        field[to..to + N].copy_from_slice(place);
    }
}

/// Copies the rows of one section of a field to those of another, which has as many of the same length.
pub(super) fn copy_inside(field: &mut [u8], from: &Section, to: &Section) {
    let (mut sources, mut targets, row) = (from.rows(), to.rows(), from.row);
    while let (Some(source), Some(target)) = (sources.run(usize::MAX), targets.run(usize::MAX)) {
        for index in 0..source.count.min(target.count) {
            let first = source.first + index * source.stride;
            field.copy_within(first..first + row, target.first + index * target.stride);
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
