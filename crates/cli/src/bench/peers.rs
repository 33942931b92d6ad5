//! The MPI libraries of this machine: which are there, how their program is built, how it is started.
//!
//! `benches/peers/` has the table, the program and what is known of each library; both are built into this command.

use super::catalogue::Place;
use super::comm::FLAT;
use super::harness::Rival;
use super::join::apart::{self, NEXT, TALKS};
use super::launch;
use super::workshop::{self, Workshop};
use kumiki_run::{report, system};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TABLE: &str = include_str!("../../embedded/peers.tsv");
const PROGRAM: &str = concat!(include_str!("../../embedded/ask.h"), include_str!("../../embedded/rma.c"));

/// What stands in the table for the folder of libraries.
const FOLDER: &str = "{peers}";

/// Where libraries are: the folder that was given to `benches/peers/install`.
pub(super) const FOLDER_VARIABLE: &str = "KUMIKI_PEERS_DIR";

/// How long a library may take to say whether it lets jobs connect.
const PORT_LIMIT: Duration = Duration::from_secs(20);

/// One library over one fabric.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) tcp: bool,
    /// Whether it is in the folder of libraries, not of the system.
    is_installed: bool,
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
    apart_flags: Vec<String>,
    server: Vec<String>,
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

    fn knows(&self, line: &str) -> bool {
        !line.starts_with(FLAT)
    }

    fn command(&self, ranks: u32, arguments: &[&str]) -> Result<Command, String> {
        let few = ranks as usize <= system::allowed_cores().len();
        let (environment, flags) = if few {
            (&self.few_environment, &self.few_flags)
        } else {
            (&self.many_environment, &self.many_flags)
        };
        let mut command = workshop::tool(&self.mpirun)?;
        set_environment(&mut command, self.common_environment.iter().chain(environment));
        if system::user() == 0 {
            command.args(&self.root_flags);
        }
        command.args(&self.flags).args(flags).arg("-n").arg(ranks.to_string());
        command.arg(&self.program).args(arguments).current_dir(&self.scratch);
        Ok(command)
    }
}

/// Two jobs of a peer that connect to each other.
pub(super) struct Connected(Peer);

impl Connected {
    /// This peer as two jobs, if it lets them connect; else why not.
    pub(super) fn of(peer: &Peer) -> Result<Connected, String> {
        let mut connected = Connected(peer.clone());
        connected.0.name = format!("{}-connect", peer.name);
        let (text, _) = launch::output(peer.command(1, &["port"])?, PORT_LIMIT, false)?;
        match text.lines().find_map(|line| line.strip_prefix("no ")) {
            None => Ok(connected),
            Some(why) => Err(why.rsplit("): ").next().unwrap_or(why).trim().to_string()),
        }
    }
}

impl Connected {
    /// Where the address of the server is written to, and the name of the port.
    fn files(&self) -> [PathBuf; 2] {
        let own = std::process::id();
        ["address", "port"].map(|name| self.0.scratch.join(format!("{name}-{}-{own}", self.0.name)))
    }

    fn clear(&self) {
        self.files().iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Rival for Connected {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn is_for(&self, _place: Place, ranks: u32) -> bool {
        ranks == 2
    }

    fn knows(&self, line: &str) -> bool {
        self.0.knows(line)
    }

    fn command(&self, _ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        let peer = &self.0;
        let [address, port] = self.files();
        self.clear();
        let mut words: Vec<String> = Vec::new();
        if !peer.server.is_empty() {
            words.extend(peer.server.iter().cloned());
            words.extend([address.display().to_string(), NEXT.into()]);
        }
        for (side, core) in [("accept", 0), ("connect", 1)] {
            if !peer.server.is_empty() {
                words.push(format!("@{}", address.display()));
            }
            words.push(if side == "accept" { TALKS.into() } else { format!("@{}", port.display()) });
            words.extend(apart::on_core(core));
            words.push(peer.mpirun.clone());
            if !peer.server.is_empty() {
                words.extend(["--ompi-server".into(), format!("file:{}", address.display())]);
            }
            let root = if system::user() == 0 { &peer.root_flags[..] } else { &[] };
            words.extend([root, &peer.flags, &peer.apart_flags].concat());
            words.extend(["-n".into(), "1".into(), peer.program.display().to_string(), side.into()]);
            words.push(port.display().to_string());
            if side == "accept" {
                words.push(NEXT.into());
            }
        }
        let mut command = apart::command(&words)?;
        set_environment(&mut command, peer.common_environment.iter().chain(&peer.few_environment));
        command.current_dir(&peer.scratch);
        Ok(command)
    }
}

impl Peer {
    /// Builds a program with its compiler and an option that says how far it is optimised, unless that has been done.
    pub(super) fn compile(
        &self,
        workshop: &Workshop,
        name: &str,
        text: &str,
        optimised: &str,
    ) -> Result<PathBuf, String> {
        let mut command = workshop::tool(&self.mpicc)?;
        set_environment(&mut command, self.common_environment.iter());
        command.arg(optimised);
        workshop.build(&program_name(name, &self.mpicc), ("c", text), command, &["-ldl", "-lm"])
    }

    /// The same library with another program.
    pub(super) fn running(mut self, program: PathBuf) -> Peer {
        self.program = program;
        self
    }

    /// The words that start many processes, which share the processors with others: `-n N PROGRAM` comes behind them. The library chooses by itself how they
    /// reach each other: what it was told in other comparisons may not go from job to job.
    pub(super) fn crowded(&self) -> Vec<String> {
        let root = if system::user() == 0 { &self.root_flags[..] } else { &[] };
        let mut words = vec!["env".to_string()];
        words.extend(self.common_environment.iter().chain(&self.many_environment).cloned());
        words.push(self.mpirun.clone());
        words.extend(root.iter().chain(&self.many_flags).cloned());
        words
    }

    /// Whether nobody else can have put its programs where they are. Those of the system are where `PATH` says.
    fn judge(&self) -> Result<(), String> {
        let programs = [&self.mpicc, &self.mpirun].into_iter().filter(|_| self.is_installed);
        programs.map(Path::new).try_for_each(|program| {
            let real = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
            let mut folders = [program.parent(), real.parent()].into_iter().flatten();
            folders
                .try_for_each(|folder| system::trusted_folder(folder).map(drop))
                .map_err(|error| error.to_string())
        })
    }
}

fn set_environment<'a>(command: &mut Command, entries: impl Iterator<Item = &'a String>) {
    for entry in entries {
        if let Some((name, value)) = entry.split_once('=') {
            command.env(name, value);
        }
    }
}

/// Those that are there and wanted, as contenders.
pub(super) fn rivals(list: &str) -> Result<Vec<Box<dyn Rival>>, String> {
    Ok(find(list)?.into_iter().map(|peer| Box::new(peer) as _).collect())
}

/// The peers that are there and wanted, ready to be started. Says on standard error what is not.
pub(super) fn find(list: &str) -> Result<Vec<Peer>, String> {
    if list == "none" {
        return Ok(Vec::new());
    }
    let left_out = |why| report(&format!("the libraries that were installed are left out: {why}"));
    let libraries = workshop::libraries(FOLDER_VARIABLE).unwrap_or_else(|why| {
        left_out(why);
        None
    });
    let table = parse(TABLE, libraries.as_deref().unwrap_or(Path::new("")));
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
    let is_here = |program: &str| system::find_program(program).is_some();
    wanted.retain(|peer| libraries.is_some() || !peer.is_installed);
    wanted.retain(|peer| is_here(&peer.mpicc) && is_here(&peer.mpirun));
    wanted.retain(|peer| match peer.judge() {
        Ok(()) => true,
        Err(why) => {
            report(&format!("{} is left out: {why}", peer.name));
            false
        }
    });
    if wanted.is_empty() {
        report("no MPI library was found to compare with; `./x peers` installs some. Going on without.");
        return Ok(Vec::new());
    }
    if let Err(why) = build(&mut wanted) {
        report(&format!("the MPI libraries are left out: {why}"));
        return Ok(Vec::new());
    }
    Ok(wanted)
}

/// Builds the program with each compiler, unless that has been done.
fn build(peers: &mut Vec<Peer>) -> Result<(), String> {
    let workshop = Workshop::open()?;
    let scratch = workshop.scratch()?;
    peers.retain_mut(|peer| {
        let built = peer.compile(&workshop, "rma", PROGRAM, "-O2");
        match &built {
            Ok(program) => (peer.program, peer.scratch) = (program.clone(), scratch.clone()),
            Err(why) => report(&format!("{} is left out: {why}", peer.name)),
        }
        built.is_ok()
    });
    Ok(())
}

/// What our program is called that this compiler builds.
fn program_name(name: &str, mpicc: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("{name}-{}", mpicc.chars().map(plain).collect::<String>())
}

/// Reads the table: one row a line, one column a tab, `-` for nothing.
fn parse(table: &str, folder: &Path) -> Vec<Peer> {
    let folder = folder.to_string_lossy();
    let mut rows = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let heads: Vec<&str> = rows.next().unwrap_or_default().split('\t').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let raw = |head: &str| {
            let at = heads.iter().position(|name| *name == head);
            at.and_then(|at| cells.get(at)).copied().filter(|text| *text != "-").unwrap_or("")
        };
        let cell = |head: &str| raw(head).replace(FOLDER, &folder);
        let words = |head: &str| cell(head).split_whitespace().map(String::from).collect();
        Peer {
            name: cell("peer"),
            tcp: cell("fabric") == "tcp",
            is_installed: raw("mpicc").contains(FOLDER),
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
            apart_flags: words("apart"),
            server: words("server"),
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
        assert!(impi.is_installed && peers.iter().any(|peer| !peer.is_installed));
        assert_eq!(impi.max_ranks, Some(64));
        assert!(impi.common_environment.contains(&"I_MPI_ROOT=/p/impi".to_string()));
        assert!(peers.iter().all(|peer| !peer.mpicc.is_empty() && !peer.mpirun.is_empty()));
    }

    #[test]
    fn a_library_that_everybody_can_change_is_not_run() {
        let folder = std::env::temp_dir().join(format!("kumiki-peers-{}", std::process::id()));
        let bin = folder.join("impi/bin");
        system::private_folder(&bin).expect("a folder");
        for program in ["mpicc", "mpirun"] {
            std::fs::write(bin.join(program), "").expect("a file");
        }
        let path = |name: &str| bin.join(name).to_string_lossy().into_owned();
        let peer =
            Peer { is_installed: true, mpicc: path("mpicc"), mpirun: path("mpirun"), ..Peer::default() };
        assert_eq!(peer.judge(), Ok(()));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.join("impi"), mode).expect("a mode");
        assert!(peer.judge().expect_err("refused").contains("others may write to it"));
        std::fs::remove_dir_all(&folder).expect("no folder");
    }

    #[test]
    fn a_peer_is_started_in_the_mode_for_its_number_of_ranks() {
        let mut peer = parse(TABLE, Path::new("/p")).remove(0);
        peer.mpirun = "/bin/sh".into();
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
