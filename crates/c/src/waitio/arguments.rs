//! What functions take, from C and from Fortran.
//!
//! A function is written once, of arguments that know how either language passes them: C by value, Fortran by reference, with numbers and
//! handles of four bytes, four integers for a status, and indices from 1. [`face`] gives it all its names.

use super::groups::WaitioGroup;
use super::requests::WaitioReq;
use crate::api::give;
use crate::guard::misuse;
use kumiki::Result;
use std::ffi::{c_int, c_ulong, c_void};

/// An argument of a function, in both languages.
pub trait Argument: Sized {
    /// As C passes it.
    type C;
    /// As Fortran passes it.
    type Fortran;

    fn of_c(given: Self::C) -> Self;

    /// # Safety
    /// What is passed must lead to what Fortran programs declare, or be NULL.
    unsafe fn of_fortran(given: Self::Fortran) -> Result<Self>;
}

/// The number that Fortran passes.
///
/// # Safety
/// `at` must be readable for four bytes, or NULL.
unsafe fn number(at: *const c_int) -> Result<c_int> {
    match at.is_null() {
        true => Err(misuse("an argument is NULL")),
        // SAFETY: as the caller promises; whatever variable of Fortran this is, it may be aligned otherwise.
        false => Ok(unsafe { at.read_unaligned() }),
    }
}

/// What is passed as a number in both languages.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($kept:ty) of $c:ty, $make:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(pub(super) $kept);

        impl Argument for $name {
            type C = $c;
            type Fortran = *const c_int;

            fn of_c(given: $c) -> Self {
                let make: fn($c) -> $kept = $make;
                $name(make(given))
            }

            unsafe fn of_fortran(given: *const c_int) -> Result<Self> {
                // SAFETY: as the caller promises.
                Self::of_number(unsafe { number(given) }?)
            }
        }
    )*};
}

numbers! {
    /// A count, a type, a rank and so on.
    Number(c_int) of c_int, |given| given;
    /// A tag of WaitIO, which has 64 bits.
    Tag(u64) of c_ulong, |given| given;
    /// A tag in the words of MPI: an int, whose sign goes on through 64 bits.
    IntTag(u64) of c_int, |given| i64::from(given) as u64;
    /// Bytes.
    Length(usize) of usize, |given| given;
    /// The handle of a group; 0 is NULL.
    Group(usize) of *mut WaitioGroup, |given| given as usize as u32 as usize;
}

impl Number {
    fn of_number(number: c_int) -> Result<Self> {
        Ok(Number(number))
    }
}

impl Tag {
    fn of_number(number: c_int) -> Result<Self> {
        Ok(Tag(IntTag::of_c(number).0))
    }
}

impl IntTag {
    fn of_number(number: c_int) -> Result<Self> {
        Ok(IntTag::of_c(number))
    }
}

impl Length {
    fn of_number(number: c_int) -> Result<Self> {
        usize::try_from(number).map(Length).map_err(|_| misuse(format!("len: there are no {number} bytes")))
    }
}

impl Group {
    fn of_number(number: c_int) -> Result<Self> {
        // A handle that was never given: a small number, too, so that the message shows it as it is.
        Ok(Group(number as u32 as usize))
    }
}

/// What is a pointer in both languages, to the same.
macro_rules! pointers {
    ($($(#[$doc:meta])* $name:ident($pointer:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(pub(super) $pointer);

        impl Argument for $name {
            type C = $pointer;
            type Fortran = $pointer;

            fn of_c(given: $pointer) -> Self {
                $name(given)
            }

            unsafe fn of_fortran(given: $pointer) -> Result<Self> {
                Ok($name(given))
            }
        }
    )*};
}

pointers! {
    /// Memory of elements.
    Memory(*mut c_void);
    /// A number for each member.
    Numbers(*const c_int);
    /// Where a number goes; or a logical value of Fortran.
    Out(*mut c_int);
    /// Where a number of bytes goes.
    BytesOut(*mut usize);
    /// A request, or several.
    Requests(*mut WaitioReq);
}

impl Out {
    /// # Safety
    /// It must be writable, or NULL.
    pub(super) unsafe fn give(self, what: &str, value: c_int) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { give(self.0, what, value) }
    }
}

impl BytesOut {
    /// # Safety
    /// It must be writable, or NULL.
    pub(super) unsafe fn give(self, value: usize) -> Result<()> {
        if self.0.is_null() {
            return Err(misuse("the place for the bytes is NULL"));
        }
        // SAFETY: as the caller promises; Fortran may have aligned it for smaller numbers.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

/// Where indices go: from 0 in C, from 1 in Fortran; one less is none.
#[derive(Clone, Copy)]
pub struct IndexOut {
    at: *mut c_int,
    first: c_int,
}

impl Argument for IndexOut {
    type C = *mut c_int;
    type Fortran = *mut c_int;

    fn of_c(at: *mut c_int) -> Self {
        IndexOut { at, first: 0 }
    }

    unsafe fn of_fortran(at: *mut c_int) -> Result<Self> {
        Ok(IndexOut { at, first: 1 })
    }
}

impl IndexOut {
    /// # Safety
    /// It must be writable, or NULL.
    pub(super) unsafe fn give(self, index: Option<usize>) -> Result<()> {
        let index = index.map_or(self.first - 1, |index| index as c_int + self.first);
        // SAFETY: as the caller promises.
        unsafe { give(self.at, "the index", index) }
    }
}

/// Where it is told which requests failed: an int for each in C, four in Fortran.
#[derive(Clone, Copy)]
pub struct Statuses {
    at: *mut c_int,
    each: usize,
}

impl Argument for Statuses {
    type C = *mut c_int;
    type Fortran = *mut c_int;

    fn of_c(at: *mut c_int) -> Self {
        Statuses { at, each: 1 }
    }

    unsafe fn of_fortran(at: *mut c_int) -> Result<Self> {
        Ok(Statuses { at, each: 4 })
    }
}

impl Statuses {
    /// # Safety
    /// There must be so many, or NULL, or 1.
    pub(super) unsafe fn give(self, index: usize, has_failed: bool) {
        // A program that was an MPI's says that it wants none by NULL, or by 1.
        if self.at.addr() <= 1 {
            return;
        }
        let at = self.at.wrapping_add(index * self.each);
        for word in 0..self.each {
            // SAFETY: as the caller promises.
            unsafe { at.wrapping_add(word).write_unaligned(c_int::from(has_failed && word == 0)) };
        }
    }
}

/// Where a handle of a group goes, or is: a pointer in C, four bytes in Fortran.
#[derive(Clone, Copy)]
pub enum GroupPlace {
    C(*mut *mut WaitioGroup),
    Fortran(*mut c_int),
}

impl Argument for GroupPlace {
    type C = *mut *mut WaitioGroup;
    type Fortran = *mut c_int;

    fn of_c(at: *mut *mut WaitioGroup) -> Self {
        GroupPlace::C(at)
    }

    unsafe fn of_fortran(at: *mut c_int) -> Result<Self> {
        Ok(GroupPlace::Fortran(at))
    }
}

impl GroupPlace {
    /// # Safety
    /// It must be writable, or NULL.
    pub(super) unsafe fn give(self, handle: usize) -> Result<()> {
        let is_null = match self {
            GroupPlace::C(at) => at.is_null(),
            GroupPlace::Fortran(at) => at.is_null(),
        };
        if is_null {
            return Err(misuse("the place for the group is NULL"));
        }
        match self {
            // SAFETY: as the caller promises.
            GroupPlace::C(at) => unsafe { at.write_unaligned(handle as *mut WaitioGroup) },
            // SAFETY: as the caller promises.
            GroupPlace::Fortran(at) => unsafe { at.write_unaligned(handle as c_int) },
        }
        Ok(())
    }

    /// # Safety
    /// It must be readable, or NULL.
    pub(super) unsafe fn get(self) -> Result<Group> {
        match self {
            GroupPlace::C(at) if !at.is_null() => {
                // SAFETY: as the caller promises.
                Ok(Group::of_c(unsafe { at.read_unaligned() }))
            }
            // SAFETY: as the caller promises.
            GroupPlace::Fortran(at) if !at.is_null() => unsafe { Group::of_fortran(at) },
            _ => Err(misuse("the place of the group is NULL")),
        }
    }
}

/// A function of C, by one of its names.
macro_rules! face_of_c {
    ([$($doc:tt)*] $told:ident $name:ident $body:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        $($doc)*
        ///
        /// # Safety
        /// Pointers must be NULL, or lead to what the header says.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(
            $($argument: <$type as $crate::waitio::arguments::Argument>::C),*
        ) -> ::std::ffi::c_int {
            $crate::waitio::edge(stringify!($told), || {
                // SAFETY: as the caller promises.
                unsafe { $body($(<$type as $crate::waitio::arguments::Argument>::of_c($argument)),*) }
            })
        }
    };
}
pub(super) use face_of_c;

/// A function of Fortran, by one of its names.
macro_rules! face_of_fortran {
    ([$($doc:tt)*] $told:ident $name:ident $body:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        $($doc)*
        /// For Fortran.
        ///
        /// # Safety
        /// Everything must be what Fortran programs declare, or NULL.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            $($argument: <$type as $crate::waitio::arguments::Argument>::Fortran,)*
            ierr: *mut ::std::ffi::c_int,
        ) {
            let code = $crate::waitio::edge(stringify!($told), || {
                // SAFETY: as the caller promises.
                unsafe { $body($(<$type as $crate::waitio::arguments::Argument>::of_fortran($argument)?),*) }
            });
            if !ierr.is_null() {
                // SAFETY: as the caller promises.
                unsafe { ierr.write_unaligned(code) };
            }
        }
    };
}
pub(super) use face_of_fortran;

/// Gives a function, which takes [arguments](Argument), its names in C and in Fortran: the one that messages have, others of C behind a bar,
/// and both of Fortran.
macro_rules! face {
    ($($(#[$doc:meta])* $name:ident $(| $other:ident)*, $fortran:ident $again:ident = $body:ident $arguments:tt;)*) => {$(
        $crate::waitio::arguments::face_of_c! { [$(#[$doc])*] $name $name $body $arguments }
        $crate::waitio::arguments::face!(@others [$(#[$doc])*] $name ($($other)*) $body $arguments);
        $crate::waitio::arguments::face_of_fortran! { [$(#[$doc])*] $name $fortran $body $arguments }
        $crate::waitio::arguments::face_of_fortran! { [$(#[$doc])*] $name $again $body $arguments }
    )*};
    (@others $doc:tt $told:ident () $body:ident $arguments:tt) => {};
    (@others $doc:tt $told:ident ($other:ident) $body:ident $arguments:tt) => {
        $crate::waitio::arguments::face_of_c! { $doc $told $other $body $arguments }
    };
}
pub(super) use face;

/// As [`face`], for functions that C has in another form.
macro_rules! face_in_fortran {
    ($($(#[$doc:meta])* $told:ident, $name:ident $again:ident = $body:ident $arguments:tt;)*) => {$(
        $crate::waitio::arguments::face_of_fortran! { [$(#[$doc])*] $told $name $body $arguments }
        $crate::waitio::arguments::face_of_fortran! { [$(#[$doc])*] $told $again $body $arguments }
    )*};
}
pub(super) use face_in_fortran;
