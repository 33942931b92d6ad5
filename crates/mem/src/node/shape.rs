//! Shapes: which parts of a memory a copy is about. Sections of up to eight dimensions, and lists of pieces.
//!
//! A shape says nothing of where it lies. What is read in its order is written in the order of the other side's shape, which need only
//! have as many elements.

use crate::node::access::Reach;
use crate::node::local::{fetch_to_read, fetch_to_write};
use crate::node::{copy, Node};
use crate::{Error, Result};

/// The most dimensions of a section.
pub const MOST_DIMENSIONS: usize = 8;

/// Which elements behind an address a copy is about, and in which order.
///
/// ```
/// use kumiki_mem::Shape;
///
/// // Columns 0 to 3 of rows 0, 1 and 2 of a matrix with 100 columns.
/// let block = Shape::section(&[(3, 100), (4, 1)])?;
/// assert_eq!(block.len(), 12);
/// // Elements 5, 6 and 90.
/// assert_eq!(Shape::pieces(&[(5, 2), (90, 1)])?.len(), 3);
/// assert!(Shape::section(&[(usize::MAX, 1), (2, 1)]).is_err());
/// # Ok::<(), kumiki_mem::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    form: Form,
    /// How many elements, or bytes.
    total: u64,
    /// Where the first of them lies, from the address on…
    low: i64,
    /// …and where the last one ends.
    high: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    /// Rows that are whole, and where they are: how many and how far apart, in each dimension, the outermost first.
    Section { row: u64, dimensions: [(u64, i64); MOST_DIMENSIONS], count: usize },
    /// Where each piece lies and how long it is, and where in the order it begins.
    Pieces { pieces: Vec<(u64, u64)>, starts: Vec<u64> },
}

fn too_far() -> Error {
    Error::misuse("a shape whose extents and strides overflow")
}

impl Shape {
    /// So many elements, side by side.
    pub fn contiguous(count: usize) -> Result<Shape> {
        Shape::section(&[(count, 1)])
    }

    /// A section: how many elements there are in each dimension, and how far apart they lie, in elements. The last dimension runs
    /// fastest. Strides may be anything, also negative; what lies outside of the memory is an error when the shape is used.
    pub fn section(dimensions: &[(usize, isize)]) -> Result<Shape> {
        let wide: Vec<(u64, i64)> =
            dimensions.iter().map(|&(extent, stride)| (extent as u64, stride as i64)).collect();
        Shape::of_rows(1, &wide)
    }

    /// A list of pieces: where each begins, and how many elements it has.
    pub fn pieces(pieces: &[(usize, usize)]) -> Result<Shape> {
        Shape::of_pieces(pieces.iter().map(|&(at, length)| (at as u64, length as u64)).collect())
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.total as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Rows of so many units, at these places.
    pub(crate) fn of_rows(row: u64, dimensions: &[(u64, i64)]) -> Result<Shape> {
        if dimensions.len() > MOST_DIMENSIONS {
            let many = format!("a section of {} dimensions; at most 8 can be", dimensions.len());
            return Err(Error::misuse(many));
        }
        let extents = dimensions.iter().map(|(extent, _)| *extent);
        if row == 0 || extents.clone().any(|extent| extent == 0) {
            return Ok(Shape::nothing());
        }
        let total = extents.clone().try_fold(row, u64::checked_mul).ok_or_else(too_far)?;
        let (mut low, mut high) = (0i64, i64::try_from(row).map_err(|_| too_far())?);
        for &(extent, stride) in dimensions {
            let last = i64::try_from(extent - 1).ok().and_then(|steps| steps.checked_mul(stride));
            let last = last.ok_or_else(too_far)?;
            low = low.checked_add(last.min(0)).ok_or_else(too_far)?;
            high = high.checked_add(last.max(0)).ok_or_else(too_far)?;
        }
        // Rows that touch are one, and a dimension of one element says nothing.
        let mut row = row;
        let mut kept: Vec<(u64, i64)> =
            dimensions.iter().copied().filter(|(extent, _)| *extent > 1).collect();
        while let Some((extent, _)) = kept.pop_if(|(_, stride)| i64::try_from(row) == Ok(*stride)) {
            row *= extent;
        }
        let mut dimensions = [(1, 0); MOST_DIMENSIONS];
        dimensions[..kept.len()].copy_from_slice(&kept);
        let form = Form::Section { row, dimensions, count: kept.len() };
        Shape { form, total, low, high }.checked()
    }

    /// These pieces.
    pub(crate) fn of_pieces(mut pieces: Vec<(u64, u64)>) -> Result<Shape> {
        pieces.retain(|(_, length)| *length > 0);
        let mut starts = Vec::with_capacity(pieces.len());
        let (mut total, mut low, mut high) = (0u64, i64::MAX, 0i64);
        for &(at, length) in &pieces {
            starts.push(total);
            total = total.checked_add(length).ok_or_else(too_far)?;
            let end = at.checked_add(length).and_then(|end| i64::try_from(end).ok()).ok_or_else(too_far)?;
            (low, high) = (low.min(at as i64), high.max(end));
        }
        if pieces.is_empty() {
            return Ok(Shape::nothing());
        }
        Shape { form: Form::Pieces { pieces, starts }, total, low, high }.checked()
    }

    fn nothing() -> Shape {
        let form = Form::Section { row: 0, dimensions: [(1, 0); MOST_DIMENSIONS], count: 0 };
        Shape { form, total: 0, low: 0, high: 0 }
    }

    fn checked(self) -> Result<Shape> {
        match self.high.checked_sub(self.low) {
            Some(_) => Ok(self),
            None => Err(too_far()),
        }
    }

    /// The same with units of so many bytes.
    pub(crate) fn in_bytes(&self, unit: usize) -> Result<Shape> {
        let unit = unit as u64;
        match &self.form {
            _ if unit == 0 || self.total == 0 => Ok(Shape::nothing()),
            Form::Section { row, dimensions, count } => {
                let step = |stride: i64| stride.checked_mul(unit as i64).ok_or_else(too_far);
                let scaled: Result<Vec<(u64, i64)>> = dimensions[..*count]
                    .iter()
                    .map(|&(extent, stride)| Ok((extent, step(stride)?)))
                    .collect();
                Shape::of_rows(row.checked_mul(unit).ok_or_else(too_far)?, &scaled?)
            }
            Form::Pieces { pieces, .. } => {
                let scale = |number: u64| number.checked_mul(unit).ok_or_else(too_far);
                let scaled: Result<Vec<(u64, u64)>> =
                    pieces.iter().map(|&(at, length)| Ok((scale(at)?, scale(length)?))).collect();
                Shape::of_pieces(scaled?)
            }
        }
    }

    /// How many units it has.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether its units lie side by side, in order.
    pub(crate) fn is_one_piece(&self) -> bool {
        match &self.form {
            Form::Section { count, .. } => *count == 0,
            Form::Pieces { pieces, .. } => pieces.len() == 1,
        }
    }

    /// Where its first unit in memory lies, from the address on.
    pub(crate) fn low(&self) -> i64 {
        self.low
    }

    /// How many units of memory it spans.
    pub(crate) fn span(&self) -> u64 {
        (self.high - self.low) as u64
    }

    /// The same in parts of at most so many pieces, each with the number of its first unit.
    pub(crate) fn cut(self, most: usize) -> Result<Vec<(u64, Shape)>> {
        match &self.form {
            Form::Pieces { pieces, starts } if pieces.len() > most => pieces
                .chunks(most)
                .zip(starts.iter().step_by(most))
                .map(|(part, first)| Ok((*first, Shape::of_pieces(part.to_vec())?)))
                .collect(),
            _ => Ok(vec![(0, self)]),
        }
    }

    /// As numbers for a message.
    pub(crate) fn words(&self) -> Vec<u64> {
        match &self.form {
            Form::Section { row, dimensions, count } => {
                let mut words = vec![*count as u64, *row];
                words.extend(
                    dimensions[..*count].iter().flat_map(|&(extent, stride)| [extent, stride as u64]),
                );
                words
            }
            Form::Pieces { pieces, .. } => {
                let mut words = vec![PIECES, pieces.len() as u64];
                words.extend(pieces.iter().flat_map(|&(at, length)| [at, length]));
                words
            }
        }
    }

    /// What [`words`](Self::words) has written, or somebody has made up.
    pub(crate) fn of_words(words: &[u64]) -> Result<Shape> {
        let wrong = || Error::misuse("a shape that cannot be read");
        let (&[count, row], rest) = words.split_first_chunk::<2>().ok_or_else(wrong)?;
        let (pairs, odd) = rest.as_chunks::<2>();
        let wanted = if count == PIECES { row } else { count };
        if !odd.is_empty() || pairs.len() as u64 != wanted {
            return Err(wrong());
        }
        if count == PIECES {
            return Shape::of_pieces(pairs.iter().map(|&[at, length]| (at, length)).collect());
        }
        let dimensions: Vec<(u64, i64)> =
            pairs.iter().map(|&[extent, stride]| (extent, stride as i64)).collect();
        Shape::of_rows(row, &dimensions)
    }

    /// The pieces in order, from the unit `from` on.
    pub(crate) fn cursor(&self, from: u64) -> Cursor<'_> {
        let mut cursor = Cursor { shape: self, at: 0, left: 0, steps: [0; MOST_DIMENSIONS], next: 0 };
        if from >= self.total {
            cursor.next = usize::MAX;
            return cursor;
        }
        match &self.form {
            Form::Section { row, dimensions, count } => {
                let (mut index, within) = (from / row, from % row);
                for dimension in (0..*count).rev() {
                    let (extent, stride) = dimensions[dimension];
                    cursor.steps[dimension] = index % extent;
                    cursor.at += stride * (index % extent) as i64;
                    index /= extent;
                }
                (cursor.at, cursor.left) = (cursor.at + within as i64, row - within);
            }
            Form::Pieces { pieces, starts } => {
                let index = starts.partition_point(|start| *start <= from) - 1;
                let (at, length) = pieces[index];
                let within = from - starts[index];
                (cursor.at, cursor.left, cursor.next) = ((at + within) as i64, length - within, index);
            }
        }
        cursor
    }
}

/// The first number of a list of pieces in a message.
const PIECES: u64 = u64::MAX;

/// Goes through a shape, piece by piece.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    shape: &'a Shape,
    at: i64,
    left: u64,
    steps: [u64; MOST_DIMENSIONS],
    /// The piece of a list; `usize::MAX` at the end.
    next: usize,
}

impl Cursor<'_> {
    /// How many units follow without a gap; none at the end.
    fn ahead(&mut self) -> u64 {
        if self.left == 0 {
            self.advance();
        }
        self.left
    }

    /// The pieces of so many units that follow, which are at most what is [`ahead`](Self::ahead).
    fn rows(&self, length: u64) -> Rows {
        match &self.shape.form {
            Form::Section { row, dimensions, count: count @ 1.. }
                if self.left == length && length == *row =>
            {
                let (extent, step) = dimensions[count - 1];
                let left = extent - self.steps[count - 1];
                Rows { at: self.at, length, step, count: left, dimension: Some(count - 1) }
            }
            _ => {
                Rows { at: self.at, length, step: length as i64, count: self.left / length, dimension: None }
            }
        }
    }

    /// Leaves out so many of the pieces that [`rows`](Self::rows) has given.
    fn skip(&mut self, rows: &Rows, count: u64) {
        self.at = rows.nth(count - 1) + rows.length as i64;
        match rows.dimension {
            Some(dimension) => {
                self.steps[dimension] += count - 1;
                self.left = 0;
            }
            None => self.left -= rows.length * count,
        }
    }

    /// On to the next row or piece.
    #[inline]
    fn advance(&mut self) -> bool {
        if self.next == usize::MAX {
            return false;
        }
        match &self.shape.form {
            Form::Section { row, dimensions, count } => {
                self.at -= *row as i64;
                for dimension in (0..*count).rev() {
                    let (extent, stride) = dimensions[dimension];
                    if self.steps[dimension] + 1 < extent {
                        self.steps[dimension] += 1;
                        (self.at, self.left) = (self.at + stride, *row);
                        return true;
                    }
                    self.at -= stride * (extent - 1) as i64;
                    self.steps[dimension] = 0;
                }
            }
            Form::Pieces { pieces, .. } => {
                if let Some(&(at, length)) = pieces.get(self.next + 1) {
                    (self.at, self.left, self.next) = (at as i64, length, self.next + 1);
                    return true;
                }
            }
        }
        self.next = usize::MAX;
        false
    }
}

/// Pieces of one length that lie evenly apart.
struct Rows {
    /// Where the first of them is, and how far it is to the next.
    at: i64,
    step: i64,
    length: u64,
    count: u64,
    /// The dimension that they are the rows of; none if they lie side by side in one piece.
    dimension: Option<usize>,
}

impl Rows {
    fn nth(&self, row: u64) -> i64 {
        self.at + self.step * row as i64
    }
}

/// A shape of memory that this process can touch: where the lowest byte of it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Laid<'a> {
    pub(crate) lowest: Reach,
    pub(crate) shape: &'a Shape,
}

impl Laid<'_> {
    /// What lies so many bytes behind the address of the shape.
    #[inline]
    fn at(&self, offset: i64) -> Reach {
        // Inside of what was checked: between the lowest byte and the highest.
        self.lowest.add((offset - self.shape.low) as u64)
    }
}

/// Copies so many bytes of one shape to another, each from one of its own on; false if this process cannot. Both shapes must have been
/// checked to lie in memory that is the caller's, or pinned.
pub(crate) fn move_shape(
    node: &Node,
    to: Laid<'_>,
    to_first: u64,
    from: Laid<'_>,
    from_first: u64,
    bytes: u64,
) -> Result<bool> {
    let (mut targets, mut sources) = (to.shape.cursor(to_first), from.shape.cursor(from_first));
    let mut left = bytes;
    while left > 0 {
        let length = targets.ahead().min(sources.ahead()).min(left);
        if length == 0 {
            return Ok(false);
        }
        let (there, here) = (targets.rows(length), sources.rows(length));
        let count = there.count.min(here.count).min(left / length);
        match (to.at(there.at), from.at(here.at)) {
            (Reach::Direct(target), Reach::Direct(source)) => {
                let steps = (there.step as isize, here.step as isize);
                // SAFETY: all rows lie between the lowest and the highest byte of shapes that were checked, as the caller says.
                unsafe { move_rows(target, source, steps, length as usize, count) };
            }
            _ => {
                for row in 0..count {
                    let (target, source) = (to.at(there.nth(row)), from.at(here.nth(row)));
                    if !copy::move_here(node, target, source, length)? {
                        return Ok(false);
                    }
                }
            }
        }
        targets.skip(&there, count);
        sources.skip(&here, count);
        left -= length * count;
    }
    if let Reach::Direct(pointer) = to.lowest {
        node.wrote(pointer);
    }
    Ok(true)
}

/// Moves so many rows, which lie so far apart at either side.
///
/// # Safety
/// `to` and `from` must be valid for writes and reads of all rows at their steps.
unsafe fn move_rows(to: *mut u8, from: *const u8, steps: (isize, isize), bytes: usize, count: u64) {
    let jumps = steps.0 != bytes as isize || steps.1 != bytes as isize;
    let fetches = jumps && FETCHED.contains(&bytes);
    // Also behind the last of them: a section that is sent comes here in blocks.
    let reads_ahead = fetches && steps.1 != bytes as isize && count >= READ_AHEAD;
    let (mut target, mut source) = (to, from);
    for row in 0..count {
        if fetches && row + ROWS_AHEAD < count {
            let ahead = target.wrapping_offset(steps.0 * ROWS_AHEAD as isize);
            (0..bytes).step_by(LINE).for_each(|line| fetch_to_write(ahead.wrapping_add(line)));
        }
        if reads_ahead {
            let ahead = source.wrapping_offset(steps.1 * READ_AHEAD as isize);
            (0..bytes).step_by(LINE).for_each(|line| fetch_to_read(ahead.wrapping_add(line)));
        }
        // SAFETY: as the caller promises.
        unsafe { copy::move_bytes(target, source, bytes) };
        (target, source) = (target.wrapping_offset(steps.0), source.wrapping_offset(steps.1));
    }
}

/// Where a row goes is fetched so many rows before it is written: the processor foresees no jump by itself. In rows that are longer it
/// finds its way, and shorter ones cost less than the fetch.
const ROWS_AHEAD: u64 = 2;
/// …and where one comes from so many rows before it is read, if those do not lie side by side.
const READ_AHEAD: u64 = 16;
const LINE: usize = 64;
const FETCHED: std::ops::RangeInclusive<usize> = LINE..=2048;

#[cfg(test)]
mod tests {
    use super::*;

    /// All places of a shape, one by one, as nested loops give them.
    fn places(dimensions: &[(usize, isize)]) -> Vec<i64> {
        let mut all = vec![0i64];
        for &(extent, stride) in dimensions {
            all = all
                .iter()
                .flat_map(|at| (0..extent).map(move |step| at + step as i64 * stride as i64))
                .collect();
        }
        all
    }

    fn walked(shape: &Shape, from: u64, most: u64) -> Vec<i64> {
        let mut cursor = shape.cursor(from);
        let mut all = Vec::new();
        while cursor.ahead() > 0 {
            let rows = cursor.rows(cursor.left.min(most));
            // Not all of them, sometimes.
            let count = if rows.at % 2 == 0 { rows.count } else { rows.count.div_ceil(2) };
            let places = (0..count).flat_map(|row| (0..rows.length as i64).map(move |unit| (row, unit)));
            all.extend(places.map(|(row, unit)| rows.nth(row) + unit));
            cursor.skip(&rows, count);
        }
        all
    }

    #[test]
    fn a_cursor_goes_as_nested_loops_do_from_wherever_it_begins() {
        let sections: [&[(usize, isize)]; 9] = [
            &[],
            &[(7, 1)],
            &[(3, 10), (4, 1)],
            &[(3, 4), (4, 1)],
            &[(2, -50), (3, 7), (2, 2)],
            &[(2, 1), (2, 2), (2, 4), (2, 8), (2, 16), (2, 32), (2, 64), (2, 128)],
            &[(4, 0), (2, 1)],
            &[(1, 999), (5, -1)],
            &[(5, 3), (0, 1)],
        ];
        for section in sections {
            let (shape, places) = (Shape::section(section).unwrap(), places(section));
            assert_eq!(shape.total() as usize, places.len(), "{section:?}");
            for from in 0..=places.len() {
                for most in [1, 2, 5, u64::MAX] {
                    assert_eq!(walked(&shape, from as u64, most), places[from..], "{section:?} from {from}");
                }
            }
            if let (Some(low), Some(high)) = (places.iter().min(), places.iter().max()) {
                assert_eq!((shape.low(), shape.span()), (*low, (high - low + 1) as u64), "{section:?}");
            }
            assert_eq!(Shape::of_words(&shape.words()).unwrap(), shape);
            let wide = shape.in_bytes(8).unwrap();
            let bytes: Vec<i64> = places.iter().flat_map(|at| at * 8..at * 8 + 8).collect();
            assert_eq!(walked(&wide, 0, u64::MAX), bytes);
        }
        let list = Shape::pieces(&[(9, 2), (3, 0), (0, 1), (9, 3)]).unwrap();
        let places = [9, 10, 0, 9, 10, 11];
        for from in 0..=6 {
            assert_eq!(walked(&list, from as u64, 2), places[from..]);
        }
        assert_eq!((list.low(), list.span(), list.len()), (0, 12, 6));
        assert_eq!(Shape::of_words(&list.words()).unwrap(), list);
        let parts = list.cut(2).unwrap();
        assert_eq!(
            parts.iter().map(|(first, part)| (*first, part.len())).collect::<Vec<_>>(),
            [(0, 3), (3, 3)]
        );
    }

    #[test]
    fn what_overflows_is_no_shape() {
        let wide: [&[(usize, isize)]; 5] = [
            &[(usize::MAX, 1)],
            &[(1 << 40, 1 << 40)],
            &[(1 << 33, 0), (1 << 33, 0)],
            &[(2, isize::MAX), (2, isize::MAX)],
            &[(2, isize::MIN), (2, isize::MAX)],
        ];
        for section in wide {
            assert!(Shape::section(section).is_err(), "{section:?}");
        }
        assert!(Shape::section(&[(1, 1); 9]).is_err());
        assert!(Shape::section(&[(3, 1 << 60)]).unwrap().in_bytes(8).is_err());
        assert!(Shape::pieces(&[(usize::MAX, 1)]).is_err() && Shape::pieces(&[(1, usize::MAX)]).is_err());
        assert!(Shape::pieces(&[(1 << 61, 1)]).unwrap().in_bytes(8).is_err());
        let made_up: [&[u64]; 6] =
            [&[], &[1], &[1, 1], &[9, 1], &[PIECES, 2, 1, 1], &[PIECES, 1, u64::MAX, u64::MAX]];
        for words in made_up {
            assert!(Shape::of_words(words).is_err(), "{words:?}");
        }
    }
}
