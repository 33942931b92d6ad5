//! Where the programs of peers are built and kept: a folder of this user alone. What somebody else could have put there is
//! not run.

use kumiki_run::{environment, system};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of ours in the user's cache.
const OURS: &str = "kumiki";

/// What the name of a file has that is being built, behind the number of the process that builds it.
const NEW: &str = "new";

/// The folder.
pub(super) struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Opens the folder; makes it if it is not there.
    pub(super) fn open() -> Result<Workshop, String> {
        private("bench").map(|folder| Workshop { folder })
    }

    /// A folder for programs to run in.
    pub(super) fn scratch(&self) -> Result<PathBuf, String> {
        system::private_folder(&self.folder.join("scratch")).map_err(|error| error.to_string())
    }

    /// Builds a program from the text of its source, unless that has been done. `compile` is the compiler with its options; it is
    /// given the source, `-o` and the program, then `libraries`.
    pub(super) fn build(
        &self,
        program: &str,
        (ending, text): (&str, &str),
        mut compile: Command,
        libraries: &[&str],
    ) -> Result<PathBuf, String> {
        let (source, program) = (self.folder.join(format!("{program}.{ending}")), self.folder.join(program));
        let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", self.folder.display());
        let is_fresh = std::fs::read(&source).is_ok_and(|bytes| bytes == text.as_bytes());
        if is_fresh && system::is_own_program(&program) {
            return Ok(program);
        }
        self.clear();
        // Somebody who looks meanwhile sees no half of a program.
        let new = program.with_extension(format!("{}.{NEW}", std::process::id()));
        let text_of_new = new.with_extension(format!("{NEW}.{ending}"));
        std::fs::write(&text_of_new, text).map_err(wrong)?;
        compile.arg(&text_of_new).arg("-o").arg(&new).args(libraries).stdin(Stdio::null());
        // What a compiler looks for in the current folder is then not what somebody else has put there.
        compile.current_dir(&self.folder);
        let name = compile.get_program().to_string_lossy().into_owned();
        let output = compile.output().map_err(|error| format!("{name} cannot be started: {error}"));
        let _ = std::fs::remove_file(&text_of_new);
        let output = output?;
        if !output.status.success() {
            let _ = std::fs::remove_file(&new);
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{name} cannot build {}: {}", source.display(), said.trim()));
        }
        // Whatever the umask of the user is: the next time it must be found to be ours alone.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&new, mode).map_err(wrong)?;
        std::fs::rename(&new, &program).map_err(wrong)?;
        // The source comes last: beside it is never a program of another.
        system::replace(&source, |out| out.write_all(text.as_bytes())).map_err(wrong)?;
        Ok(program)
    }

    /// Removes what builds have left that were interrupted.
    fn clear(&self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let mut words = name.split('.').skip(1);
            let builder = words.next().and_then(|word| word.parse::<u32>().ok());
            let is_gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
            if words.next() == Some(NEW) && builder.is_some_and(is_gone) {
                let _ = std::fs::remove_file(self.folder.join(name));
            }
        }
    }
}

/// A compiler or the like, by its name or path.
pub(super) fn tool(name: &str) -> Result<Command, String> {
    system::command(name).ok_or_else(|| format!("there is no {name} in PATH; install it"))
}

/// A private folder of ours in the user's cache.
fn private(name: &str) -> Result<PathBuf, String> {
    let folder = in_cache(name)?;
    // The one above is judged, too: it is ours alone, or the other could be moved.
    system::private_folder(&folder).map_err(|error| {
        format!("{error}; XDG_CACHE_HOME can name another folder for what benchmarks build and run")
    })
}

/// Where the MPI libraries are that `benches/peers/install` brings, if they are: as the variable says, or in the user's cache.
pub(super) fn libraries(variable: &'static str) -> Result<Option<PathBuf>, String> {
    let said = environment::text(variable).map_err(|error| error.to_string())?;
    let trusted = |folder: &Path| system::trusted_folder(folder).map_err(|error| error.to_string());
    match said {
        Some(folder) => {
            let folder = std::path::absolute(&folder).map_err(|error| format!("{variable}: {error}"))?;
            trusted(&folder).map(Some).map_err(|error| format!("{variable}: {error}"))
        }
        None => {
            in_cache("peers").ok().filter(|folder| folder.exists()).map(|folder| trusted(&folder)).transpose()
        }
    }
}

fn in_cache(name: &str) -> Result<PathBuf, String> {
    let cache = environment::cache_folder();
    let cache =
        cache.ok_or("there is no folder for what benchmarks build and run: set XDG_CACHE_HOME, or HOME")?;
    Ok(cache.join(OURS).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compiler that runs a script of the shell: its arguments are the source, `-o` and the program.
    fn compiler(script: &str) -> Command {
        let mut command = tool("sh").expect("a shell");
        command.args(["-c", script, "sh"]);
        command
    }

    #[test]
    fn a_build_that_failed_left_an_old_program_that_counted_as_new() {
        let folder = std::env::temp_dir().join(format!("kumiki-workshop-{}", std::process::id()));
        let workshop = Workshop { folder: system::private_folder(&folder).expect("a folder") };
        let build = |text: &str, script: &str| workshop.build("it", ("c", text), compiler(script), &[]);
        let (copies, fails) = ("cp $1 $3", "cp $1 $3; exit 1");
        let program = build("old", copies).expect("a program");
        // No process has this number.
        std::fs::write(folder.join("it.4294967295.new.c"), "").expect("a file");
        assert!(build("new", fails).is_err());
        assert!(build("new", fails).is_err(), "the old program is not the new one");
        assert_eq!(build("new", copies).as_ref(), Ok(&program));
        assert_eq!(std::fs::read_to_string(&program).expect("a file"), "new");
        assert_eq!(build("new", fails), Ok(program), "it has been built");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2, "nothing is left over");
        std::fs::remove_dir_all(&folder).expect("no folder");
    }
}
