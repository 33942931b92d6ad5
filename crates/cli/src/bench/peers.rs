//! The MPI libraries of this machine: which are there, how their program is built, how it is started.
//!
//! `benches/peers/` has the table, the program and what is known of each library; both are built into this command.

use super::catalogue::Place;
use super::harness::Rival;
use kumiki_run::environment;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TABLE: &str = include_str!("../../../../benches/peers/peers.tsv");
const PROGRAM: &str = include_str!("../../../../benches/peers/rma.c");

/// Where the libraries and our program for them are: the folder that was given to `benches/peers/install`.
const FOLDER_VARIABLE: &str = "KUMIKI_PEERS_DIR";

/// One library over one fabric.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) tcp: bool,
    mpicc: String,
    mpirun: String,
    common_environment: Vec<String>,
    few_environment: Vec<String>,
    many_environment: Vec<String>,
    root_flags: Vec<String>,
    flags: Vec<String>,
    few_flags: Vec<String>,
    many_flags: Vec<String>,
    max_ranks: Option<u32>,
    program: PathBuf,
    scratch: PathBuf,
}

impl Rival for Peer {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_for(&self, place: Place, ranks: u32) -> bool {
        self.tcp == (place == Place::Tcp) && self.max_ranks.is_none_or(|most| ranks <= most)
    }

    fn command(&self, ranks: u32, arguments: &[&str]) -> Result<Command, String> {
        let few = ranks as usize <= kumiki_run::system::allowed_cores().len();
        let (environment, flags) = if few {
            (&self.few_environment, &self.few_flags)
        } else {
            (&self.many_environment, &self.many_flags)
        };
        let mut command = Command::new(&self.mpirun);
        set_environment(&mut command, self.common_environment.iter().chain(environment));
        if is_root() {
            command.args(&self.root_flags);
        }
        command.args(&self.flags).args(flags).arg("-n").arg(ranks.to_string());
        command.arg(&self.program).args(arguments).current_dir(&self.scratch);
        Ok(command)
    }
}

fn set_environment<'a>(command: &mut Command, entries: impl Iterator<Item = &'a String>) {
    for entry in entries {
        if let Some((name, value)) = entry.split_once('=') {
            command.env(name, value);
        }
    }
}

/// The peers that are there and wanted, ready to be started. Says on standard error what is not.
pub(super) fn find(list: &str) -> Result<Vec<Peer>, String> {
    if list == "none" {
        return Ok(Vec::new());
    }
    let folder = folder()?;
    let table = parse(TABLE, &folder);
    let mut wanted: Vec<Peer> = table.clone();
    if list != "auto" {
        let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        for name in &names {
            if !table.iter().any(|peer| peer.name.starts_with(name)) {
                let known: Vec<&str> = table.iter().map(|peer| peer.name.as_str()).collect();
                return Err(format!("--peers {name}: there is no such peer; known are {}", known.join(", ")));
            }
        }
        wanted.retain(|peer| names.iter().any(|name| peer.name.starts_with(name)));
    }
    wanted.retain(|peer| exists(&peer.mpicc) && exists(&peer.mpirun));
    if wanted.is_empty() {
        eprintln!(
            "kumiki: no MPI library was found to compare with; `./x peers` installs some. Going on without."
        );
        return Ok(Vec::new());
    }
    build(&folder, &mut wanted)?;
    Ok(wanted)
}

/// Builds the program with each compiler, unless that has been done.
fn build(folder: &Path, peers: &mut Vec<Peer>) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", folder.display());
    std::fs::create_dir_all(folder.join("scratch")).map_err(wrong)?;
    let source = folder.join("rma.c");
    let fresh = std::fs::read_to_string(&source).is_ok_and(|text| text == PROGRAM);
    if !fresh {
        std::fs::write(&source, PROGRAM).map_err(wrong)?;
    }
    let mut built: Vec<PathBuf> = Vec::new();
    peers.retain_mut(|peer| {
        let name: String =
            peer.mpicc.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        peer.program = folder.join(format!("rma-{name}"));
        peer.scratch = folder.join("scratch");
        if (fresh && peer.program.exists()) || built.contains(&peer.program) {
            return true;
        }
        let mut command = Command::new(&peer.mpicc);
        set_environment(&mut command, peer.common_environment.iter());
        command.arg("-O2").arg(&source).arg("-o").arg(&peer.program).stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => {
                built.push(peer.program.clone());
                true
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                eprintln!("kumiki: {} cannot build rma.c, so {} is left out: {said}", peer.mpicc, peer.name);
                false
            }
            Err(error) => {
                eprintln!("kumiki: {}: {error}; {} is left out", peer.mpicc, peer.name);
                false
            }
        }
    });
    Ok(())
}

/// The folder of the peers: as the variable says, the nearest `target/peers` above this command or the current
/// directory, or one among the temporary files.
pub(super) fn folder() -> Result<PathBuf, String> {
    if let Some(folder) = environment::text(FOLDER_VARIABLE).map_err(|error| error.to_string())? {
        return std::path::absolute(&folder).map_err(|error| format!("{FOLDER_VARIABLE}: {error}"));
    }
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let found = starts.iter().flatten().find_map(|start| {
        start.ancestors().map(|above| above.join("target/peers")).find(|folder| folder.is_dir())
    });
    Ok(found.unwrap_or_else(|| std::env::temp_dir().join(format!("kumiki-peers-{}", user()))))
}

fn user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid())
}

fn is_root() -> bool {
    user() == 0
}

/// Whether a program exists: at its path, or in a folder of PATH.
fn exists(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

/// Reads the table: one row a line, one column a tab, `-` for nothing.
fn parse(table: &str, folder: &Path) -> Vec<Peer> {
    let folder = folder.to_string_lossy();
    let mut rows = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let heads: Vec<&str> = rows.next().unwrap_or_default().split('\t').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |head: &str| {
            let at = heads.iter().position(|name| *name == head);
            let text = at.and_then(|at| cells.get(at)).copied().unwrap_or("-");
            (if text == "-" { "" } else { text }).replace("{peers}", &folder)
        };
        let words = |head: &str| cell(head).split_whitespace().map(String::from).collect();
        Peer {
            name: cell("peer"),
            tcp: cell("fabric") == "tcp",
            mpicc: cell("mpicc"),
            mpirun: cell("mpirun"),
            common_environment: words("common_env"),
            few_environment: words("few_env"),
            many_environment: words("many_env"),
            root_flags: words("root"),
            flags: words("flags"),
            few_flags: words("few"),
            many_flags: words("many"),
            max_ranks: cell("max_ranks").parse().ok(),
            ..Peer::default()
        }
    };
    rows.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_understood() {
        let peers = parse(TABLE, Path::new("/p"));
        assert!(peers.iter().any(|peer| peer.name == "openmpi4" && !peer.tcp && peer.max_ranks.is_none()));
        let impi = peers.iter().find(|peer| peer.name == "impi" && peer.tcp).unwrap();
        assert_eq!(impi.mpicc, "/p/impi/bin/mpicc");
        assert_eq!(impi.max_ranks, Some(64));
        assert!(impi.common_environment.contains(&"I_MPI_ROOT=/p/impi".to_string()));
        assert!(peers.iter().all(|peer| !peer.mpicc.is_empty() && !peer.mpirun.is_empty()));
    }

    #[test]
    fn a_peer_is_started_in_the_mode_for_its_number_of_ranks() {
        let mut peer = parse(TABLE, Path::new("/p")).remove(0);
        peer.program = "/p/rma".into();
        let words = |ranks| -> Vec<String> {
            peer.command(ranks, &["init"])
                .expect("a command")
                .get_args()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        assert!(words(1).contains(&"core".to_string()));
        assert!(words(10_000).contains(&"--oversubscribe".to_string()));
        assert_eq!(words(10_000)[words(10_000).len() - 4..], ["-n", "10000", "/p/rma", "init"]);
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_known() {
        assert!(find("openmmpi").unwrap_err().contains("openmpi4"));
        assert!(find("none").unwrap().is_empty());
    }
}
