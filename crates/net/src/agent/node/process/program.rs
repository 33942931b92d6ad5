//! Finding the program before anything is started.

use crate::agent::protocol::Launch;
use crate::os::file::{find_program_in, is_program};
use crate::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why the ranks cannot be started.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no such program.
    NotFound(String),
    /// There is no such directory to run it in.
    NoDirectory(String),
    /// It is there, but cannot be run.
    NotExecutable(String),
    /// Something else.
    Other(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Other(error)
    }
}

/// The file of the program: the path itself, or the first match in `PATH`.
pub(super) fn find(launch: &Launch) -> Result<PathBuf, Trouble> {
    let name = launch.command.first().map(|word| OsStr::from_bytes(word)).unwrap_or_default();
    let shown = Path::new(name).display();
    let directory = Path::new(OsStr::from_bytes(&launch.directory));
    if !launch.directory.is_empty() && !directory.is_dir() {
        return Err(Trouble::NoDirectory(format!("there is no directory {} (--wdir)", directory.display())));
    }
    if name.as_bytes().contains(&b'/') {
        let path = if launch.directory.is_empty() { PathBuf::from(name) } else { directory.join(name) };
        return match check(&path) {
            // It is started in that directory, from where a relative path would lead elsewhere.
            Found::Yes => Ok(std::path::absolute(&path).unwrap_or(path)),
            Found::NotExecutable => Err(Trouble::NotExecutable(format!(
                "{shown} is not a program that can be run: check its permissions"
            ))),
            Found::No => Err(Trouble::NotFound(format!("there is no program {shown}"))),
        };
    }
    let path = launch.environment.iter().find(|(key, _)| key == b"PATH").map(|(_, value)| value.clone());
    let path = path.or_else(|| std::env::var_os("PATH").map(|value| value.as_bytes().to_vec()));
    let path = path.unwrap_or_else(|| b"/usr/local/bin:/usr/bin:/bin".to_vec());
    find_program_in(name, OsStr::from_bytes(&path)).ok_or_else(|| {
        let local = directory.join(name);
        let hint =
            if check(&local) == Found::No { String::new() } else { format!("; did you mean ./{shown}?") };
        Trouble::NotFound(format!("there is no program {shown} in PATH{hint}"))
    })
}

#[derive(PartialEq, Eq)]
enum Found {
    Yes,
    NotExecutable,
    No,
}

fn check(path: &Path) -> Found {
    match path.metadata() {
        Ok(_) if is_program(path) => Found::Yes,
        Ok(_) => Found::NotExecutable,
        Err(_) => Found::No,
    }
}
