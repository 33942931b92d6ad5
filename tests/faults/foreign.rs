//! Ranks that another launcher starts: they find each other by `KUMIKI_MASTER` and the secret in a file.

use crate::job::Setup;
use crate::loopback;
use crate::runner::{skip, tests};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

tests![ranks_of_mpirun_find_each_other];

/// The launchers: their program and what it needs to start three ranks, as root and on a machine with fewer cores.
const LAUNCHERS: &[(&str, &[&str])] = &[
    ("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe", "-n", "3"]),
    ("mpirun.mpich", &["-n", "3"]),
];

fn ranks_of_mpirun_find_each_other() {
    for (program, options) in LAUNCHERS {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            skip(program, "it is not installed (./x peers installs it)");
            continue;
        }
        let secret = Secret::new();
        let master = loopback::address();
        let mut words = vec![*program];
        words.extend(*options);
        let setup = Setup::new("meet").foreign(&words).variable("KUMIKI_MASTER", master);
        let mut job = setup.variable("KUMIKI_SECRET_FILE", secret.0.display()).start();
        let ended = job.end();
        job.check_processes();
        ended.expect_code(0);
        assert_eq!(ended.said("met"), ["3", "3", "3"], "{program}: {}", ended.show());
    }
}

/// A file with a secret that only we may read; removed in the end.
struct Secret(PathBuf);

impl Secret {
    fn new() -> Secret {
        let path = Path::new("/tmp").join(format!("kumiki-faults-secret-{}", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(&[0x5a; 32]).unwrap();
        Secret(path)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
