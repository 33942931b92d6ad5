//! Lamellar, for batches of words in shared memory: a program of `benches/peers/lamellar` that `./x peers` builds.

use super::super::catalogue::{How, Metric, Place};
use super::super::harness::Rival;
use super::super::{peers, workshop};
use kumiki_run::{report, system};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `--peers` and reports call it.
const NAME: &str = "lamellar";
/// Where its program is in the folder of libraries.
const PROGRAM: &str = "lamellar/target/release/batches";

/// The program, which starts its processes itself.
struct Lamellar {
    program: PathBuf,
    scratch: PathBuf,
}

impl Rival for Lamellar {
    fn name(&self) -> &str {
        NAME
    }

    fn is_for(&self, place: Place, _ranks: u32) -> bool {
        place == Place::Shm
    }

    fn knows(&self, line: &str) -> bool {
        knows(line)
    }

    fn command(&self, ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        let mut command = Command::new(&self.program);
        command.arg(ranks.to_string()).current_dir(&self.scratch);
        Ok(command)
    }
}

fn knows(line: &str) -> bool {
    ["comm.histogram.", "comm.gather."].iter().any(|pattern| line.starts_with(pattern))
}

/// The MPI libraries that are there and wanted, and Lamellar if it is wanted and knows one of these metrics. Says on standard error what is not there.
pub(super) fn rivals(list: &str, metrics: &[Metric]) -> Result<Vec<Box<dyn Rival>>, String> {
    let (wanted, libraries) = split(list);
    let mut found = match libraries {
        Some(list) => peers::rivals(&list).map_err(|error| format!("{error}; and {NAME}"))?,
        None => Vec::new(),
    };
    let asked = |metric: &Metric| {
        matches!(&metric.how, How::Ask { peers: Some(line), .. } if knows(line))
            && metric.session.place == Place::Shm
    };
    if wanted && metrics.iter().any(asked) {
        match find() {
            Ok(lamellar) => found.push(Box::new(lamellar)),
            Err(why) => report(&format!("Lamellar is left out: {why}")),
        }
    }
    Ok(found)
}

/// Whether a list of peers has Lamellar, and what it has beside it, if anything.
fn split(list: &str) -> (bool, Option<String>) {
    if ["auto", "none"].contains(&list) {
        return (list == "auto", Some(list.into()));
    }
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let (own, others): (Vec<&str>, Vec<&str>) = names.partition(|name| *name == NAME);
    (!own.is_empty(), (own.is_empty() || !others.is_empty()).then(|| others.join(",")))
}

fn find() -> Result<Lamellar, String> {
    let folder = workshop::libraries(peers::FOLDER_VARIABLE)?;
    let program = program_in(folder.as_deref())?;
    Ok(Lamellar { program, scratch: workshop::Workshop::open()?.scratch()? })
}

/// The program in the folder of libraries, if nobody else can have put it there.
fn program_in(folder: Option<&Path>) -> Result<PathBuf, String> {
    let program = folder.and_then(|folder| system::find_program(folder.join(PROGRAM)));
    let program = program.ok_or("it has not been built; `./x peers` does it")?;
    let place = program.parent().unwrap_or(Path::new("/"));
    system::trusted_folder(place).map_err(|error| error.to_string())?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_peers_may_name_lamellar_alone_or_beside_mpi_libraries() {
        assert_eq!(split("auto"), (true, Some("auto".into())));
        assert_eq!(split("none"), (false, Some("none".into())));
        assert_eq!(split("lamellar"), (true, None));
        assert_eq!(split("mpich, lamellar"), (true, Some("mpich".into())));
        assert_eq!(split("mpich"), (false, Some("mpich".into())));
        assert!(rivals("lamelar", &[]).err().expect("refused").contains("lamellar"));
        assert!(rivals("lamellar", &[]).expect("a list").is_empty(), "it is not asked for anything");
    }

    #[test]
    fn it_is_asked_for_batches_in_shared_memory_with_as_many_processes_as_ranks() {
        let lamellar = Lamellar { program: "/p/batches".into(), scratch: "/p".into() };
        let asked = super::super::catalogue::all().into_iter().filter(|metric| {
            let session = metric.session;
            let knows = |how: &How| matches!(how, How::Ask { peers: Some(line), .. } if lamellar.knows(line));
            knows(&metric.how) && lamellar.is_for(session.place, session.ranks)
        });
        let names: Vec<String> = asked.map(|metric| metric.name).collect();
        assert_eq!(names.len(), 8, "two patterns, two tables, two numbers of ranks: {names:?}");
        assert!(names.iter().all(|name| name.contains(".shm.")));
        let command = lamellar.command(4, &[]).expect("a command");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["4"]);
    }

    #[test]
    fn a_program_that_others_could_have_put_there_is_refused() {
        let folder = std::env::temp_dir().join(format!("kumiki-lamellar-{}", std::process::id()));
        let place = folder.join(PROGRAM).parent().expect("a folder").to_owned();
        system::private_folder(&place).expect("a folder");
        assert!(program_in(Some(&folder)).expect_err("nothing is there").contains("./x peers"));
        assert!(program_in(None).is_err());
        std::fs::write(folder.join(PROGRAM), "").expect("a file");
        let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
        std::fs::set_permissions(folder.join(PROGRAM), mode(0o700)).expect("a mode");
        assert_eq!(program_in(Some(&folder)), Ok(folder.join(PROGRAM)));
        std::fs::set_permissions(&place, mode(0o777)).expect("a mode");
        assert!(program_in(Some(&folder)).expect_err("refused").contains("others may write to it"));
        std::fs::remove_dir_all(&folder).expect("no folder");
    }
}
