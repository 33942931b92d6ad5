//! The MPI that is loaded in this process, if one is: which rank this is, and of how many. Nothing here links an MPI.
//!
//! A library of MPI is found among those that the process has loaded, also where Python loaded it for itself alone. Its
//! functions have the same names in every MPI, but `MPI_COMM_WORLD` is something else in each family; symbols tell them apart.

use std::ffi::{c_int, c_void, CStr, CString};

/// `MPI_COMM_WORLD` of MPICH and what descends from it, which is a number.
const MPICH_WORLD: usize = 0x4400_0000;
/// `MPI_COMM_WORLD` of the ABI that MPI itself defines, since 5.0.
const STANDARD_WORLD: usize = 0x101;
/// `MPI_BYTE` of MPICH, and of the ABI that MPI itself defines.
const MPICH_BYTE: usize = 0x4c00_010d;
const STANDARD_BYTE: usize = 0x207;

/// The rank of this process in `MPI_COMM_WORLD`, and its size: `None` if no MPI is loaded that we know, or if it has not been
/// initialised, or has been finalized.
///
/// ```
/// assert_eq!(kumiki_net::os::mpi::place(), None, "there is no MPI in this test");
/// ```
pub fn place() -> Option<(u32, u32)> {
    in_loaded(Library::place)
}

/// Gives what the first process of `MPI_COMM_WORLD` has to all of them, who must all call this: whether it was done. An MPI that runs is needed.
pub fn spread(bytes: &mut [u8]) -> bool {
    in_loaded(|library| library.place().and_then(|_| library.spread(bytes))).is_some()
}

/// Initialises the MPI that is loaded, if there is one that nobody has initialised: whether it was done.
pub fn start() -> bool {
    in_loaded(Library::start).is_some()
}

/// Finalizes the MPI that is loaded, if it runs.
pub fn stop() {
    in_loaded(|library| library.place().and_then(|_| library.stop()));
}

/// What the first library of an MPI gives that gives something.
fn in_loaded<R>(mut ask: impl FnMut(&Library) -> Option<R>) -> Option<R> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function below is called for every object while the call lasts, and the list outlives it.
    unsafe { libc::dl_iterate_phdr(Some(note), std::ptr::from_mut(&mut names).cast()) };
    // What the program itself was linked with comes first: it may lie in the program, or behind a tool that looks at every call.
    let whole = Library { handle: libc::RTLD_DEFAULT };
    let loaded = names.iter().filter_map(|name| Library::open(name));
    std::iter::once(whole).chain(loaded).find_map(|library| ask(&library))
}

/// Notes the path of a loaded object if it is one of an MPI. Called by the loader, which holds its lock: nothing is loaded here.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
    // SAFETY: the loader gives what it knows of an object, whose name is a text or NULL; the list is that of `place`.
    let (name, names) = unsafe { ((*info).dlpi_name, &mut *names.cast::<Vec<CString>>()) };
    if !name.is_null() {
        // SAFETY: not NULL, so it is a text.
        let name = unsafe { CStr::from_ptr(name) };
        if is_of_mpi(file_name(name)) {
            names.push(name.to_owned());
        }
    }
    0
}

fn file_name(path: &CStr) -> &[u8] {
    path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// `libmpi.so.40`, `libmpich.so.12`, `libmpi_abi.so.0`, `libmpi_cray.so.12` and so on.
fn is_of_mpi(file: &[u8]) -> bool {
    file.starts_with(b"libmpi") && file.windows(3).any(|part| part == b".so")
}

fn has_standard_abi(path: &CStr) -> bool {
    file_name(path).starts_with(b"libmpi_abi.")
}

/// A library that is loaded.
struct Library {
    handle: *mut c_void,
}

/// The path of the object that something lies in.
fn object_of(place: *mut c_void) -> Option<CString> {
    // SAFETY: all zeros are one of its values, and there is room for it; the name lives as long as the object, which is loaded.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(place, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(found.dli_fname).to_owned())
    }
}

impl Library {
    /// One that is loaded already; nothing is loaded for it.
    fn open(path: &CStr) -> Option<Library> {
        // SAFETY: a path that ends with 0; it is not loaded if it is not there.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Library { handle })
    }

    /// Where something of this name lies, in the library or in what it needs.
    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle of the loader, and a name that ends with 0.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// The answer of a function that tells a number.
    fn ask(&self, name: &CStr) -> Option<c_int> {
        let function = self.find(name)?;
        // SAFETY: every MPI has functions of these names, with this one argument.
        let function: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(function) };
        let mut answer = 0;
        // SAFETY: it may be called at any time, and writes one number.
        (unsafe { function(&mut answer) } == 0).then_some(answer)
    }

    /// What a function of `MPI_COMM_WORLD` tells.
    fn ask_world(&self, name: &CStr, world: usize) -> Option<u32> {
        let function = self.find(name)?;
        // SAFETY: every MPI has functions of these names. A handle is a pointer or a number of 4 bytes; both are passed in the same
        // place on x86-64 and aarch64, and who wants 4 bytes looks at no more.
        let function: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
            unsafe { std::mem::transmute(function) };
        let mut answer = 0;
        // SAFETY: MPI is initialised, and the handle is the one of this library.
        let code = unsafe { function(world, &mut answer) };
        (code == 0).then(|| u32::try_from(answer).ok()).flatten()
    }

    /// `MPI_COMM_WORLD`. A wrong one would end the process, so whoever is not known is left alone.
    fn world(&self) -> Option<usize> {
        // There may be two MPIs in a process: only the object in which the functions lie says which family they are of. (Those with P are never of a
        // tool.) One that is part of the program cannot be opened, and is asked as a whole.
        let path = object_of(self.find(c"PMPI_Comm_rank")?)?;
        let object = Library::open(&path);
        let object = object.as_ref().unwrap_or(self);
        if has_standard_abi(&path) {
            return Some(STANDARD_WORLD);
        }
        if let Some(own) = object.find(c"ompi_mpi_comm_world") {
            // A program that was linked with it may have it in itself, and then everybody means that one.
            return Some(self.find(c"ompi_mpi_comm_world").unwrap_or(own) as usize);
        }
        // Its header names it, so that every library with this ABI has it.
        if object.find(c"MPIR_Dup_fn").is_some() {
            return Some(MPICH_WORLD);
        }
        let version = object.find(c"MPI_Abi_get_version")?;
        // SAFETY: the function of MPI 5.0 of this name has these two arguments, and may be called at any time.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            unsafe { std::mem::transmute(version) };
        let (mut major, mut minor): (c_int, c_int) = (-1, -1);
        // SAFETY: as above.
        let code = unsafe { version(&mut major, &mut minor) };
        (code == 0 && major >= 1).then_some(STANDARD_WORLD)
    }

    fn start(&self) -> Option<()> {
        self.world()?;
        if self.ask(c"PMPI_Initialized")? != 0 {
            return None;
        }
        let function = self.find(c"MPI_Init")?;
        // SAFETY: every MPI has a function of this name, with these arguments, which may be NULL.
        let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int =
            unsafe { std::mem::transmute(function) };
        // SAFETY: nobody has called it.
        (unsafe { function(std::ptr::null_mut(), std::ptr::null_mut()) } == 0).then_some(())
    }

    fn stop(&self) -> Option<()> {
        let function = self.find(c"MPI_Finalize")?;
        // SAFETY: every MPI has a function of this name, without arguments.
        let function: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
        // SAFETY: MPI runs.
        (unsafe { function() } == 0).then_some(())
    }

    fn spread(&self, bytes: &mut [u8]) -> Option<()> {
        let world = self.world()?;
        let byte = match world {
            MPICH_WORLD => MPICH_BYTE,
            STANDARD_WORLD => STANDARD_BYTE,
            _ => self.find(c"ompi_mpi_byte")? as usize,
        };
        let (function, count) = (self.find(c"PMPI_Bcast")?, c_int::try_from(bytes.len()).ok()?);
        // SAFETY: every MPI has a function of this name. Handles are passed as in `ask_world`.
        let function: unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, usize) -> c_int =
            unsafe { std::mem::transmute(function) };
        // SAFETY: MPI runs, the handles are those of this library, and there is room for so many bytes.
        (unsafe { function(bytes.as_mut_ptr().cast(), count, byte, 0, world) } == 0).then_some(())
    }

    fn place(&self) -> Option<(u32, u32)> {
        let is_running = self.ask(c"PMPI_Initialized")? != 0 && self.ask(c"PMPI_Finalized")? == 0;
        let world = self.world().filter(|_| is_running)?;
        let (rank, size) =
            (self.ask_world(c"PMPI_Comm_rank", world)?, self.ask_world(c"PMPI_Comm_size", world)?);
        (rank < size).then_some((rank, size))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.handle != libc::RTLD_DEFAULT {
            // SAFETY: `open` got it from the loader, which counts those who have it.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_known_by_their_names() {
        for name in
            ["libmpi.so.40", "libmpich.so.12", "libmpi_abi.so.0", "libmpi_cray.so.12", "libmpifort.so"]
        {
            assert!(is_of_mpi(name.as_bytes()), "{name}");
        }
        for name in ["libmpfr.so.6", "libmpi", "mpi.so", "", "libwaitio_mpi.so"] {
            assert!(!is_of_mpi(name.as_bytes()), "{name}");
        }
        assert_eq!(file_name(c"/usr/lib/libmpi.so.40"), b"libmpi.so.40");
        assert_eq!(file_name(c""), b"");
    }

    #[test]
    fn a_process_without_mpi_has_no_place() {
        assert_eq!(place(), None);
    }
}
