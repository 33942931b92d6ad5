//! Types of elements as C names them, and how they are combined: by operations that we know, and by functions of the program.

use super::{edge, give};
use crate::guard::misuse;
use kumiki::comm::{And, Integer, Located, Max, MaxAt, Min, MinAt, Number, Operation, Or, Product, Sum, Xor};
use kumiki::raw::groups::{merge, Combination};
use kumiki::{Error, Pod, Result, Zeroable};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{PoisonError, RwLock};

/// Operations by number: those that atomics have as well, and the product.
const ADD: c_int = 3;
const XOR: c_int = 4;
const OR: c_int = 5;
const AND: c_int = 6;
const MIN: c_int = 7;
const MAX: c_int = 8;
const MULTIPLY: c_int = 9;
/// The first number of an operation of the program.
const FIRST_OWN: c_int = 1024;
/// The type of elements whose size an operation of the program says.
const OWN: c_int = 0;

/// Combines elements in place with others.
type Merge = fn(&mut [u8], &[u8], bool);

/// An operation that we know, on elements of a type that we know.
#[derive(Clone, Copy)]
struct Known {
    bytes: usize,
    mark: u64,
    merge: Merge,
}

impl Known {
    fn of<T: Pod, O: Operation<T> + Default>() -> Known {
        let merge: Merge = |into, others, first| merge::<T>(&O::default(), into, others, first);
        Known { bytes: size_of::<T>(), mark: O::default().mark(), merge }
    }
}

/// What a function of the program does: `result[i]` becomes `left[i]` and `right[i]`, for so many elements.
pub type KumikiCombine = unsafe extern "C" fn(
    left: *const c_void,
    right: *const c_void,
    result: *mut c_void,
    count: usize,
    context: *mut c_void,
);

/// An operation of the program.
#[derive(Clone, Copy)]
struct Own {
    bytes: usize,
    commutes: bool,
    combine: KumikiCombine,
    context: *mut c_void,
}

// SAFETY: the program has said that its function may be called by every thread that calls the library.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

/// How elements are combined.
#[derive(Clone, Copy)]
pub(crate) struct How(Kind);

#[derive(Clone, Copy)]
enum Kind {
    Known(Known),
    Own(Own),
}

impl How {
    /// An operation on elements of a type, both known here.
    pub(crate) fn of<T: Pod, O: Operation<T> + Default>() -> How {
        How(Kind::Known(Known::of::<T, O>()))
    }
}

impl Combination for How {
    fn element_bytes(&self) -> usize {
        match &self.0 {
            Kind::Known(known) => known.bytes,
            Kind::Own(own) => own.bytes,
        }
    }

    fn commutes(&self) -> bool {
        match &self.0 {
            Kind::Known(_) => true,
            Kind::Own(own) => own.commutes,
        }
    }

    fn mark(&self) -> u64 {
        match &self.0 {
            Kind::Known(known) => known.mark,
            // As closures in Rust have it.
            Kind::Own(own) => 10 + u64::from(own.commutes),
        }
    }

    fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool) {
        match &self.0 {
            Kind::Known(known) => (known.merge)(into, others, others_first),
            Kind::Own(own) => own.merge(into, others, others_first),
        }
    }
}

impl Own {
    fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool) {
        let count = into.len() / self.bytes;
        // As strictly as elements of this size can be aligned.
        let unit = (1usize << self.bytes.trailing_zeros().min(4)).max(1);
        let is_aligned = |start: *const u8| (start as usize).is_multiple_of(unit);
        if is_aligned(into.as_ptr()) && is_aligned(others.as_ptr()) {
            return self.call(into.as_mut_ptr(), others.as_ptr(), others_first, count);
        }
        let words = self.bytes.div_ceil(size_of::<u128>());
        let (mut own, mut other) = (vec![0u128; words], vec![0u128; words]);
        let [own, other] = [&mut own, &mut other].map(|memory| memory.as_mut_ptr().cast::<u8>());
        for (into, others) in into.chunks_exact_mut(self.bytes).zip(others.chunks_exact(self.bytes)) {
            // SAFETY: both have room for an element, and are nobody else's.
            unsafe {
                std::ptr::copy_nonoverlapping(into.as_ptr(), own, self.bytes);
                std::ptr::copy_nonoverlapping(others.as_ptr(), other, self.bytes);
            }
            self.call(own, other, others_first, 1);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(own, into.as_mut_ptr(), self.bytes) };
        }
    }

    fn call(&self, own: *mut u8, other: *const u8, others_first: bool, count: usize) {
        let (own, other) = (own.cast::<c_void>(), other.cast::<c_void>());
        let (left, right) = if others_first { (other, own.cast_const()) } else { (own.cast_const(), other) };
        // SAFETY: a function of the program, which has vouched for it: it reads `count` elements of both sides, writes as many of the
        // result, and returns. Both memories have so many, and are lent to it alone.
        unsafe { (self.combine)(left, right, own, count, self.context) }
    }
}

/// A value and where it was found, as C has it.
macro_rules! located {
    ($($name:ident $value:ty, $place:ty;)*) => {$(
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        struct $name {
            value: $value,
            place: $place,
        }

        impl Pair for $name {
            type Value = $value;

            fn located(self) -> Located<$value> {
                Located::new(self.value, u64::from(self.place))
            }

            fn of(located: Located<$value>) -> Self {
                $name { value: located.value(), place: located.place() as $place }
            }
        }
    )*};
}

located! {
    I32At i32, u32;
    U32At u32, u32;
    F32At f32, u32;
    I64At i64, u64;
    U64At u64, u64;
    F64At f64, u64;
}

trait Pair: Pod {
    type Value: Number;

    fn located(self) -> Located<Self::Value>;
    fn of(located: Located<Self::Value>) -> Self;
}

/// An operation on located values, on pairs as C has them.
#[derive(Default)]
struct OnPairs<O>(O);

impl<P: Pair, O: Operation<Located<P::Value>>> Operation<P> for OnPairs<O> {
    fn apply(&self, left: P, right: P) -> P {
        P::of(self.0.apply(left.located(), right.located()))
    }

    fn mark(&self) -> u64 {
        self.0.mark()
    }
}

fn on_number<T: Number>(operation: c_int) -> Option<Known> {
    Some(match operation {
        ADD => Known::of::<T, Sum>(),
        MULTIPLY => Known::of::<T, Product>(),
        MIN => Known::of::<T, Min>(),
        MAX => Known::of::<T, Max>(),
        _ => return None,
    })
}

fn on_integer<T: Integer>(operation: c_int) -> Option<Known> {
    Some(match operation {
        AND => Known::of::<T, And>(),
        OR => Known::of::<T, Or>(),
        XOR => Known::of::<T, Xor>(),
        _ => return on_number::<T>(operation),
    })
}

fn on_pair<P: Pair>(operation: c_int) -> Option<Known> {
    Some(match operation {
        MIN => Known::of::<P, OnPairs<MinAt>>(),
        MAX => Known::of::<P, OnPairs<MaxAt>>(),
        _ => return None,
    })
}

/// The names of operations, which are numbered from 1.
const OPERATIONS: [&str; 9] = [
    "KUMIKI_COMPARE_SWAP",
    "KUMIKI_SWAP",
    "KUMIKI_ADD",
    "KUMIKI_XOR",
    "KUMIKI_OR",
    "KUMIKI_AND",
    "KUMIKI_MIN",
    "KUMIKI_MAX",
    "KUMIKI_MULTIPLY",
];

/// The names of types of elements, by number.
const TYPES: [&str; 17] = [
    "KUMIKI_OWN",
    "KUMIKI_I8",
    "KUMIKI_U8",
    "KUMIKI_I16",
    "KUMIKI_U16",
    "KUMIKI_I32",
    "KUMIKI_U32",
    "KUMIKI_I64",
    "KUMIKI_U64",
    "KUMIKI_F32",
    "KUMIKI_F64",
    "KUMIKI_I32_AT",
    "KUMIKI_U32_AT",
    "KUMIKI_F32_AT",
    "KUMIKI_I64_AT",
    "KUMIKI_U64_AT",
    "KUMIKI_F64_AT",
];

/// Why elements of a type are not combined so.
fn cannot_combine(element: c_int, operation: c_int) -> Error {
    let name = usize::try_from(operation - 1).ok().and_then(|place| OPERATIONS.get(place));
    let elements = TYPES[element as usize];
    match name {
        Some(name) => misuse(format!("operation: {name} does not combine elements of {elements}")),
        None => misuse(format!("operation: there is none of number {operation}, for elements of {elements}")),
    }
}

/// What elements of a type and an operation come to.
pub(crate) fn how(element: c_int, operation: c_int) -> Result<How> {
    if operation >= FIRST_OWN || element == OWN {
        return own(element, operation);
    }
    let known = match element {
        1 => on_integer::<i8>(operation),
        2 => on_integer::<u8>(operation),
        3 => on_integer::<i16>(operation),
        4 => on_integer::<u16>(operation),
        5 => on_integer::<i32>(operation),
        6 => on_integer::<u32>(operation),
        7 => on_integer::<i64>(operation),
        8 => on_integer::<u64>(operation),
        9 => on_number::<f32>(operation),
        10 => on_number::<f64>(operation),
        11 => on_pair::<I32At>(operation),
        12 => on_pair::<U32At>(operation),
        13 => on_pair::<F32At>(operation),
        14 => on_pair::<I64At>(operation),
        15 => on_pair::<U64At>(operation),
        16 => on_pair::<F64At>(operation),
        _ => return Err(misuse(format!("type: {element} is none; see enum kumiki_type"))),
    };
    known.map(|known| How(Kind::Known(known))).ok_or_else(|| cannot_combine(element, operation))
}

/// The operations of the program, and the number of the last one.
struct Table {
    own: BTreeMap<c_int, Own>,
    last: c_int,
}

static TABLE: RwLock<Table> = RwLock::new(Table { own: BTreeMap::new(), last: FIRST_OWN });

fn own(element: c_int, operation: c_int) -> Result<How> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    match (table.own.get(&operation), element) {
        (Some(own), OWN) => Ok(How(Kind::Own(*own))),
        (Some(_), _) => {
            Err(misuse(format!("type: {element}; with an operation of the program it is KUMIKI_OWN")))
        }
        (None, _) if operation >= FIRST_OWN => {
            Err(misuse(format!("operation: {operation} was freed, or was never given")))
        }
        (None, _) => Err(misuse("type: KUMIKI_OWN is for operations of kumiki_operation_create")),
    }
}

/// Makes an operation of a function of the program.
///
/// # Safety
/// `operation` must be writable, or NULL. The function must do what [`KumikiCombine`] says, in any thread, and return.
#[no_mangle]
pub unsafe extern "C" fn kumiki_operation_create(
    element_bytes: usize,
    commutes: c_int,
    combine: Option<KumikiCombine>,
    context: *mut c_void,
    operation: *mut c_int,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(operation, "the operation", 0) }?;
        let combine = combine.ok_or_else(|| misuse("combine: the function is NULL"))?;
        if element_bytes == 0 || element_bytes > isize::MAX as usize {
            return Err(misuse(format!("element_bytes: no element has {element_bytes}")));
        }
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let number =
            table.last.checked_add(1).ok_or_else(|| misuse("more operations than there are numbers"))?;
        table.last = number;
        table.own.insert(number, Own { bytes: element_bytes, commutes: commutes != 0, combine, context });
        // SAFETY: it was written before.
        unsafe { operation.write(number) };
        Ok(())
    })
}

/// Frees an operation. What was started with it goes on.
#[no_mangle]
pub extern "C" fn kumiki_operation_free(operation: c_int) -> c_int {
    edge(|| {
        let freed = TABLE.write().unwrap_or_else(PoisonError::into_inner).own.remove(&operation);
        let none = || misuse(format!("operation: {operation} was freed, or was never given"));
        freed.map(drop).ok_or_else(none)
    })
}
