//! What of this process runs.

/// Threads that run. One that has been joined may be listed for a moment longer; the system marks it as exiting before
/// anybody can have joined it.
pub(crate) fn threads() -> usize {
    const EXITING: u64 = 4;
    let is_exiting = |text: &str| -> Option<bool> {
        // After the name in brackets: state, parent, group, session, terminal, its group, flags.
        let flags = text.rsplit_once(") ")?.1.split(' ').nth(6)?;
        Some(flags.parse::<u64>().ok()? & EXITING != 0)
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process").flatten();
    // A file that cannot be read any more is that of a thread that has gone since.
    let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).ok();
    tasks.filter_map(stat).filter(|text| is_exiting(text) == Some(false)).count()
}
