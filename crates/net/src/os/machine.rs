//! What the machine can still give: memory, and turns of the processor.

/// Bytes that the control group of this process, or the machine, can still give; `None` if neither says.
pub fn memory_left() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/').to_string();
        let limit = number(&format!("/sys/fs/cgroup{path}/memory.max"))?;
        Some(limit.saturating_sub(number(&format!("/sys/fs/cgroup{path}/memory.current")).unwrap_or(0)))
    });
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.to_string();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    });
    [group, machine].into_iter().flatten().min()
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
