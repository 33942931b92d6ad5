//! What the machine can still give: memory, and turns of the processor.

use std::num::NonZeroU64;
use std::path::Path;

/// A limit on the memory of the processes of a control group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimit {
    /// Bytes that the group may use.
    pub most: u64,
    /// Bytes that it uses, without the pages of files that the kernel gives up by itself before the limit is felt.
    pub used: u64,
}

impl GroupLimit {
    /// Bytes that can still be had. A small part stays for whoever else of the group asks at the same moment.
    pub fn left(self) -> u64 {
        self.most.saturating_sub(self.used).saturating_sub((self.most / 32).min(64 << 20))
    }
}

/// Bytes that the control group of this process, or the machine, can still give; `None` if neither says.
pub fn memory_left() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.to_string();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    });
    group_limit().map(GroupLimit::left).into_iter().chain(machine).min()
}

/// The tightest memory limit of the control groups of this process.
pub fn group_limit() -> Option<GroupLimit> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    tightest_limit(Path::new("/sys/fs/cgroup"), &groups)
}

/// The tightest limit of these groups, of either version, and of those above them; `groups` as in `/proc/self/cgroup`.
fn tightest_limit(mount: &Path, groups: &str) -> Option<GroupLimit> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (mount, limit, used, inactive, active) = match controllers {
            "" => (mount.to_path_buf(), "memory.max", "memory.current", "inactive_file", "active_file"),
            list if list.split(',').any(|one| one == "memory") => {
                let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
                (mount.join("memory"), limit, used, "total_inactive_file", "total_active_file")
            }
            _ => continue,
        };
        // A limit of any group above holds too. In a container the path may name groups that cannot be seen.
        for group in Path::new(path).ancestors() {
            let folder = mount.join(group.strip_prefix("/").unwrap_or(group));
            let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let number = |name: &str| text(name).trim().parse::<u64>().ok();
            // The first version writes "no limit" as the largest multiple of a page, the second as a word.
            let Some(most) = number(limit).filter(|&most| most < 1 << 60) else { continue };
            let statistics = text("memory.stat");
            let of_files: u64 = statistics
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter(|(name, _)| [inactive, active].contains(name))
                .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
                .sum();
            limits.push(GroupLimit { most, used: number(used).unwrap_or(0).saturating_sub(of_files) });
        }
    }
    limits.into_iter().min_by_key(|limit| limit.left())
}

/// Asks that this thread be woken from its naps on time; the default is fifty microseconds late.
pub fn wake_on_time() {
    const SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();
    // A system that refuses it wakes late.
    let _ = rustix::thread::set_current_timer_slack(Some(SLACK_NS));
}

/// Asks the scheduler for short turns that come soon: right for a thread that sleeps, answers and sleeps again. A
/// kernel that does not know short slices leaves everything as it was.
pub fn prefer_short_slices() {
    /// `struct sched_attr` of the kernel, first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const SLICE_NS: u64 = 100_000;
    let attributes = Attributes {
        size: std::mem::size_of::<Attributes>() as u32,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attributes` is valid for reads of its own size and the call changes only this thread's scheduling.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes as *const Attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a control group.
    fn group(folder: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(folder).expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("a file");
        }
    }

    #[test]
    fn the_tightest_group_counts_and_pages_of_files_do_not() {
        let mount = std::env::temp_dir().join(format!("kumiki-groups-{}", std::process::id()));
        let statistics = "anon 1\nfile 900\ninactive_file 500\nactive_file 100\nshmem 300\n";
        let job = mount.join("slurm/job");
        group(&mount.join("slurm"), &[("memory.max", "4096\n"), ("memory.current", "1000\n")]);
        group(&job, &[("memory.max", "2048\n"), ("memory.current", "1500\n"), ("memory.stat", statistics)]);
        let step = job.join("step");
        group(&step, &[("memory.max", "max\n"), ("memory.current", "1400\n")]);
        let found = tightest_limit(&mount, "0::/slurm/job/step\n");
        // The first version, with the names of its files; its root has no limit.
        let old = mount.join("memory/batch");
        let total = "inactive_file 7\ntotal_inactive_file 64\ntotal_active_file 36\n";
        group(&mount.join("memory"), &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        group(
            &old,
            &[
                ("memory.limit_in_bytes", "8192\n"),
                ("memory.usage_in_bytes", "600\n"),
                ("memory.stat", total),
            ],
        );
        let found_old = tightest_limit(&mount, "4:cpuacct,memory:/batch\n3:cpuset:/\n");
        let none = tightest_limit(&mount, "4:memory:/elsewhere\n0::/nowhere\n");
        std::fs::remove_dir_all(&mount).expect("removed");
        assert_eq!(found, Some(GroupLimit { most: 2048, used: 900 }));
        assert_eq!(found_old, Some(GroupLimit { most: 8192, used: 500 }));
        assert_eq!(found_old.map(GroupLimit::left), Some(8192 - 500 - 256));
        assert_eq!(none, None);
    }
}
