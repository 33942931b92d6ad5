//! Processors and memory: what there is, and what this process may use of it.

use super::{bytes, Check};
use kumiki_run::probe::{group_limit, GroupLimit};
use std::fs;

pub(super) fn checks() -> Vec<Check> {
    vec![cores(), memory(), memory_group(), overcommit()]
}

fn cores() -> Check {
    const NAME: &str = "cores";
    let allowed = kumiki_run::probe::allowed_cores();
    let present = fs::read_to_string("/proc/cpuinfo")
        .map_or(0, |text| text.lines().filter(|line| line.starts_with("processor")).count());
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{usable} usable, {} allowed by affinity, {present} in the machine", allowed.len());
    if present > allowed.len() {
        let remedy = "this shell is bound to some cores only: start it without taskset, or ask the batch system for more";
        return Check::warn(NAME, found, remedy);
    }
    if usable < allowed.len() {
        let remedy = "a control group limits processor time: ask for more, or use fewer ranks";
        return Check::warn(NAME, found, remedy);
    }
    if usable == 1 {
        return Check::warn(NAME, found, "ranks will take turns: everything works, nothing is fast");
    }
    Check::ok(NAME, format!("{found}; with more ranks than that, waiting ranks sleep instead of spinning"))
}

fn memory() -> Check {
    const NAME: &str = "memory";
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let (Some(total), Some(available)) = (field("MemTotal:"), field("MemAvailable:")) else {
        return Check::warn(NAME, "/proc/meminfo cannot be read", "mount /proc");
    };
    let found = format!("{} of {} available", bytes(available), bytes(total));
    if available < 64 << 20 {
        return Check::warn(NAME, found, "free some memory: allocations will fail with OutOfMemory");
    }
    Check::ok(NAME, found)
}

fn memory_group() -> Check {
    const NAME: &str = "memory limit";
    match group_limit() {
        None => Check::ok(NAME, "no control group limits memory"),
        Some(limit) if limit.left() < 64 << 20 => Check::warn(
            NAME,
            format!("{} of {} used by this control group", bytes(limit.used), bytes(limit.most)),
            "ask for more memory: beyond the limit the kernel kills processes; set --budget to get errors instead",
        ),
        Some(GroupLimit { most, used }) => {
            Check::ok(NAME, format!("control group: {} of {} used; the arena counts too", bytes(used), bytes(most)))
        }
    }
}

fn overcommit() -> Check {
    const NAME: &str = "overcommit";
    let mode = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    match mode.trim() {
        "2" => Check::warn(
            NAME,
            "strict (vm.overcommit_memory = 2): memory can run out while some is still free",
            "nothing needs to be done; if allocations fail early, raise vm.overcommit_ratio",
        ),
        "" => {
            Check::ok(NAME, "unknown; the arena commits its memory before it is used, so it does not matter")
        }
        mode => Check::ok(
            NAME,
            format!("mode {mode}; the arena commits its memory before it is used, so it does not matter"),
        ),
    }
}
