//! What Kumiki asks of the kernel, each tried out.

use super::Check;
use kumiki_run::probe::{self, NetworkNamespace};
use std::fs;

pub(super) fn checks() -> Vec<Check> {
    vec![version(), arena(), shared_folder(), process_descriptor(), process_vm(), namespaces()]
}

fn version() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Check::ok("kernel", format!("Linux {} on {}", release.trim(), std::env::consts::ARCH))
}

fn arena() -> Check {
    const NAME: &str = "shared memory";
    match probe::try_arena() {
        Ok(()) => Check::ok(NAME, "memfd made, sealed, committed, mapped, written, given back"),
        Err(error) => Check::fail(
            NAME,
            error.to_string(),
            "Kumiki needs memfd_create with sealing and fallocate: Linux 4 or newer, and a container that allows them",
        ),
    }
}

fn shared_folder() -> Check {
    Check::ok(
        "/dev/shm",
        "not needed: shared memory has no name, so its size does not matter and nothing is left in it",
    )
}

fn process_descriptor() -> Check {
    const NAME: &str = "process descriptors";
    match probe::try_pidfd() {
        Ok(()) => Check::ok(NAME, "pidfd_open works: a death on a node is seen at once"),
        Err(error) => Check::fail(
            NAME,
            error.to_string(),
            "Kumiki needs pidfd_open: Linux 5.3 or newer, and a container that allows it",
        ),
    }
}

fn process_vm() -> Check {
    const NAME: &str = "copies between processes";
    match probe::try_process_vm() {
        Ok(()) => Check::ok(
            NAME,
            "process_vm_readv works between two children: fast access to registered private memory",
        ),
        Err(error) => {
            let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            let scope = match scope.trim() {
                "" | "0" => String::new(),
                scope => format!(" (kernel.yama.ptrace_scope = {scope})"),
            };
            Check::warn(
                NAME,
                format!("{error}{scope}: private regions are served by their owners' service threads, which is slower"),
                "`sysctl kernel.yama.ptrace_scope=0`, in a container also CAP_SYS_PTRACE; or use memory from `alloc`",
            )
        }
    }
}

fn namespaces() -> Check {
    const NAME: &str = "network namespaces";
    match probe::try_network_namespace() {
        Ok(NetworkNamespace::Directly) => Check::ok(NAME, "can be made directly (for --netns)"),
        Ok(NetworkNamespace::InUserNamespace) => {
            Check::ok(NAME, "can be made inside a user namespace (for --netns)")
        }
        Err(error) => Check::warn(
            NAME,
            format!("{error}: `kumiki run --netns` will not work; --virtual-nodes alone does"),
            "run as root, or `sysctl user.max_user_namespaces=1000` (on Debian also kernel.unprivileged_userns_clone=1)",
        ),
    }
}
