//! Which MPI a launcher is of, and which a program was linked with: as far as their names tell, and for warnings only.
//!
//! A program under the launcher of another MPI runs, but each of its processes is alone there.

use kumiki_run::parts::Part;
use kumiki_run::system::find_program;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

/// Launchers that are looked for.
const LAUNCHERS: [&str; 6] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "srun", "acprun"];
/// So much of a program is looked at: the names of the libraries stand near its beginning.
const LOOKED_BYTES: u64 = 4 << 20;

/// The families whose launchers do not start each other's programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    OpenMpi,
    Mpich,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH or one of its kind",
        }
    }

    fn launchers(self) -> &'static str {
        match self {
            Family::OpenMpi => "mpirun.openmpi, or the mpirun of its installation",
            Family::Mpich => "mpiexec.hydra, or the mpiexec of its installation",
        }
    }
}

/// Launchers that there are.
pub(super) fn there() -> Vec<&'static str> {
    LAUNCHERS.into_iter().filter(|name| find_program(OsStr::new(name)).is_some()).collect()
}

/// What is wrong if the program of a part belongs to another MPI than its launcher.
pub(super) fn mismatch(part: &Part) -> Option<String> {
    let (launcher, path) = part.launcher.iter().find_map(|word| {
        let path = find_program(word)?.canonicalize().ok()?;
        of_launcher(&path).map(|family| (family, path))
    })?;
    let program = find_program(part.program.first()?)?;
    let linked = of_program(&program)?;
    (linked != launcher).then(|| {
        format!(
            "{} is linked with {}, and {} is of {}: each of its processes would be alone; start it with {}, or compile it with the \
             mpicc of the other",
            program.display(),
            linked.name(),
            path.display(),
            launcher.name(),
            linked.launchers()
        )
    })
}

/// By the name that a launcher has behind all links.
fn of_launcher(path: &Path) -> Option<Family> {
    let name = path.file_name()?.to_str()?;
    match name {
        "orterun" | "prterun" | "prun" | "mpirun.openmpi" => Some(Family::OpenMpi),
        "mpiexec.hydra" | "mpirun.mpich" | "mpiexec.mpich" | "mpiexec.gforker" => Some(Family::Mpich),
        _ => None,
    }
}

/// By the library that the program names.
fn of_program(path: &Path) -> Option<Family> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(LOOKED_BYTES).read_to_end(&mut bytes).ok()?;
    family_in(&bytes)
}

fn family_in(bytes: &[u8]) -> Option<Family> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    // MPICH, and what keeps to its interface, has 12; Open MPI 20, 40 or 80.
    if has(b"\0libmpich.so.") || has(b"\0libmpi.so.12\0") {
        return Some(Family::Mpich);
    }
    let is_open = [&b"\0libmpi.so.20\0"[..], b"\0libmpi.so.40\0", b"\0libmpi.so.80\0"].into_iter().any(has);
    is_open.then_some(Family::OpenMpi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_tell_their_mpi_by_the_library_that_they_name() {
        let of = |text: &[u8]| family_in(&[b"\x7fELF....\0", text, b"\0libc.so.6\0"].concat());
        assert_eq!(of(b"libmpi.so.40"), Some(Family::OpenMpi));
        assert_eq!(of(b"libmpich.so.12"), Some(Family::Mpich));
        assert_eq!(of(b"libmpi.so.12"), Some(Family::Mpich));
        assert_eq!((of(b"libm.so.6"), family_in(b"#!/bin/sh\n\0libmpi.so.40\0")), (None, None));
    }

    #[test]
    fn launchers_tell_theirs_by_what_is_behind_their_links() {
        let of = |path: &str| of_launcher(Path::new(path));
        assert_eq!(of("/usr/bin/orterun"), Some(Family::OpenMpi));
        assert_eq!(of("/opt/mpich/bin/mpiexec.hydra"), Some(Family::Mpich));
        assert_eq!((of("/usr/bin/env"), of("/usr/bin/srun")), (None, None));
    }
}
