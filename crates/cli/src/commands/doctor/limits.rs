//! What the system allows a process: descriptors, processes, address space, files, locked memory, core files.

use super::{bytes, Check};
use kumiki_run::probe::{limits, Resource};
use kumiki_run::Options;

/// Descriptors that a rank needs beside its connections, as `World` counts them: fewer if it may have few.
const OTHER_DESCRIPTORS: u64 = 24;
const FEW_OTHER_DESCRIPTORS: u64 = 16;
const FEW_DESCRIPTORS: u64 = 64;
/// Below this the agent of a node refuses a job of one rank.
const LEAST_DESCRIPTORS: u64 = 34;
/// Address space of the smallest arena: one slice of 4 GiB, and the program.
const LEAST_ADDRESS_SPACE: u64 = 5 << 30;

pub(super) fn checks() -> Vec<Check> {
    vec![descriptors(), processes(), address_space(), file_size(), locked_memory(), core_file()]
}

fn read(resource: Resource, judge: impl FnOnce(Option<u64>, Option<u64>) -> Check) -> Check {
    let (soft, hard) = limits(resource);
    judge(soft, hard)
}

fn descriptors() -> Check {
    const NAME: &str = "open files";
    read(Resource::Descriptors, |soft, hard| {
        let shown = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit: u64| limit.to_string());
        let found = format!("{} (hard limit {})", shown(soft), shown(hard));
        let connections = Options::default().terms.connection_cap as u64;
        let need = connections + OTHER_DESCRIPTORS;
        // The agent raises the soft limit to the hard one, for itself and for its ranks.
        let limit = hard.unwrap_or(u64::MAX);
        if limit < LEAST_DESCRIPTORS {
            let remedy =
                format!("raise the hard limit to {need} or more (`ulimit -n` as root, or limits.conf)");
            Check::fail(NAME, format!("{found}: the agent of a node needs 32, and 2 for each rank"), remedy)
        } else if limit < need {
            let others = if limit < FEW_DESCRIPTORS { FEW_OTHER_DESCRIPTORS } else { OTHER_DESCRIPTORS };
            let room = limit - others;
            let found =
                format!("{found}: a rank keeps at most {room} TCP connections open, not {connections}");
            Check::warn(NAME, found, format!("raise the hard limit to {need} or more"))
        } else {
            Check::ok(NAME, format!("{found}; a rank uses at most {need}"))
        }
    })
}

fn processes() -> Check {
    const NAME: &str = "processes";
    read(Resource::Processes, |soft, _| match soft {
        None => Check::ok(NAME, "unlimited"),
        Some(soft) if soft < 256 => Check::warn(
            NAME,
            format!("{soft} for this user; a rank is one process and, between nodes, one thread more"),
            "`ulimit -u 4096`",
        ),
        Some(soft) => Check::ok(NAME, soft.to_string()),
    })
}

fn address_space() -> Check {
    const NAME: &str = "address space";
    read(Resource::AddressSpace, |soft, _| match soft {
        None => {
            Check::ok(NAME, "unlimited; the arena is mapped whole, but takes memory only where it is used")
        }
        Some(soft) if soft < LEAST_ADDRESS_SPACE => Check::fail(
            NAME,
            format!("{}: the arena of a node cannot be mapped", bytes(soft)),
            "`ulimit -v unlimited`; limit memory with --budget or a control group instead",
        ),
        Some(soft) => Check::warn(
            NAME,
            format!("{}: the arena maps the machine's memory for each rank of a node, sparsely", bytes(soft)),
            "`ulimit -v unlimited`; limit memory with --budget or a control group instead",
        ),
    })
}

fn file_size() -> Check {
    const NAME: &str = "file size";
    read(Resource::File, |soft, _| match soft {
        None => Check::ok(NAME, "unlimited"),
        Some(soft) => {
            let found = format!(
                "{}: the arena of a node is a sparse file without a name, and may be longer",
                bytes(soft)
            );
            let remedy =
                "`ulimit -f unlimited`, or set KUMIKI_SLICE so that the slices of a node's ranks fit";
            if soft < LEAST_ADDRESS_SPACE {
                Check::fail(NAME, found, remedy)
            } else {
                Check::warn(NAME, found, remedy)
            }
        }
    })
}

fn locked_memory() -> Check {
    const NAME: &str = "locked memory";
    read(Resource::LockedMemory, |soft, _| {
        let found = soft.map_or("unlimited".into(), bytes);
        Check::ok(NAME, format!("{found}; not needed, Kumiki locks nothing"))
    })
}

fn core_file() -> Check {
    const NAME: &str = "core files";
    read(Resource::CoreFile, |soft, _| {
        let found = match soft {
            None => "unlimited".into(),
            Some(0) => "none are written".into(),
            Some(soft) => bytes(soft),
        };
        Check::ok(NAME, format!("{found}; the arena is never part of one"))
    })
}
