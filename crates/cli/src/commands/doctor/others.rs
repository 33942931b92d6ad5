//! Programs and libraries that Kumiki can use, and the environment.

use super::Check;
use kumiki_run::{environment, probe, system};
use std::path::PathBuf;

/// Launchers of MPI libraries, each with what it belongs to.
const MPI: &[(&str, &str)] = &[
    ("mpirun.openmpi", "Open MPI"),
    ("mpirun.mpich", "MPICH"),
    ("mpiexec.hydra", "MPICH or Intel MPI"),
    ("mpirun", "mpirun"),
    ("srun", "Slurm"),
];

/// Variables by which a job of Slurm is known.
const SLURM: &[&str] = &["SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NODELIST"];

pub(super) fn checks() -> Vec<Check> {
    vec![ssh(), ssh_server(), fabric(), peers(), slurm(), variables()]
}

/// Looks for a program as a shell would, and where servers are kept.
fn find(program: &str) -> Option<PathBuf> {
    let servers = || ["/usr/sbin", "/sbin"].map(|folder| PathBuf::from(folder).join(program));
    system::find_program(program).or_else(|| servers().into_iter().find(|file| file.is_file()))
}

fn ssh() -> Check {
    const NAME: &str = "ssh";
    match find("ssh") {
        Some(path) => Check::ok(NAME, path.display().to_string()),
        None => Check::warn(
            NAME,
            "not found: `kumiki run --host` cannot reach other hosts",
            "install openssh-client, or name another starter with --ssh",
        ),
    }
}

fn ssh_server() -> Check {
    const NAME: &str = "sshd";
    match find("sshd") {
        Some(path) => Check::ok(NAME, format!("{} (the tests start their own)", path.display())),
        None => Check::ok(NAME, "not found; only the tests use it, and `./x setup` installs it"),
    }
}

fn fabric() -> Check {
    const NAME: &str = "libfabric";
    if probe::finds_library(c"libfabric.so.1") {
        Check::ok(NAME, "found; this version does not use it yet")
    } else {
        Check::ok(NAME, "not found; optional, TCP is built in")
    }
}

fn peers() -> Check {
    const NAME: &str = "other launchers";
    let found: Vec<String> = MPI
        .iter()
        .filter_map(|(program, what)| find(program).map(|path| format!("{what} ({})", path.display())))
        .collect();
    if found.is_empty() {
        return Check::ok(NAME, "none; only comparisons with MPI need one, and `./x peers` installs some");
    }
    Check::ok(NAME, found.join(", "))
}

fn slurm() -> Check {
    const NAME: &str = "Slurm";
    let set: Vec<String> = SLURM
        .iter()
        .filter_map(|name| std::env::var(name).ok().map(|value| format!("{name}={value}")))
        .collect();
    if set.is_empty() {
        return Check::ok(NAME, "not in a Slurm job");
    }
    Check::ok(NAME, set.join(" "))
}

fn variables() -> Check {
    const NAME: &str = "environment";
    let unknown = environment::unknown_variables();
    if unknown.is_empty() {
        let set = environment::VARIABLES.iter().filter(|one| std::env::var_os(one.name).is_some());
        let set: Vec<&str> = set.map(|one| one.name).collect();
        let found = if set.is_empty() { "no KUMIKI_* variable is set".into() } else { set.join(" ") };
        return Check::ok(NAME, found);
    }
    let names: Vec<&str> = unknown.iter().map(|(name, _)| name.as_str()).collect();
    let meant: Vec<String> = unknown.iter().map(|(name, near)| format!("{name} → {near}")).collect();
    Check::warn(
        NAME,
        format!("unknown: {}", names.join(" ")),
        format!("maybe you meant {}", meant.join(", ")),
    )
}
