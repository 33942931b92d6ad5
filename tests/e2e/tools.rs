//! The commands that are jobs themselves: demo, selftest and mem.

use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn kumiki(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki"));
    command.args(arguments).env_remove("KUMIKI_RANKS").stdin(std::process::Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must end well, and gives back what it printed.
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{status}: {}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Runs a command that must fail, and gives back what it complained about.
fn complaint(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(!status.success(), "it should have failed: {}", text(&stdout));
    text(&stderr)
}

/// An empty folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kumiki-e2e-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn is_picture(&self, name: &str) -> bool {
        std::fs::read(self.0.join(name)).unwrap().starts_with(b"\x89PNG\r\n\x1a\n")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_demo_gets_the_bits_of_a_serial_run_and_leaves_pictures() {
    for nodes in ["1", "2"] {
        let folder = Folder::new(&format!("demo{nodes}"));
        let out = folder.path("new");
        let words = ["demo", "--size", "64", "--steps", "50", "--virtual-nodes", nodes, "--out", &out];
        let printed = printed(&mut kumiki(&words));
        assert!(printed.contains("checked against a serial run: max difference 0\n"), "{printed}");
        // Six rows of 64 numbers cross a border between ranks in each step.
        assert!(printed.contains("bytes moved by puts     150 KiB"), "{printed}");
        assert!(folder.is_picture("new/heat.png") && folder.is_picture("new/ledger.png"));
    }
}

#[test]
fn the_demo_tells_before_the_work_that_it_cannot_write() {
    let folder = Folder::new("unwritable");
    std::fs::write(folder.0.join("file"), "").unwrap();
    let complaint = complaint(&mut kumiki(&["demo", "--out", &folder.path("file")]));
    assert!(complaint.contains("--out") && complaint.contains("cannot write there"), "{complaint}");
}

#[test]
fn the_self_test_does_something() {
    let complaint = complaint(&mut kumiki(&["selftest", "--rounds", "0"]));
    assert!(complaint.contains("--rounds"), "{complaint}");
}

/// A terminal of 24 lines: our end, and that of a command. Commands that other tests start meanwhile inherit neither: they
/// would keep it open.
fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let size = libc::winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the size is valid for reads; the other calls have no pointers.
    let (ours, theirs) = unsafe {
        let ours = libc::posix_openpt(flags);
        assert!(ours >= 0 && libc::unlockpt(ours) == 0, "a terminal");
        assert_eq!(libc::ioctl(ours, libc::TIOCSWINSZ, &size), 0, "a size");
        (ours, libc::ioctl(ours, libc::TIOCGPTPEER, flags))
    };
    assert!(theirs >= 0, "the other end");
    // SAFETY: the system has just given us these descriptors, and nobody else owns them.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// Runs a command whose standard error is a terminal. Returns what it printed there.
fn on_terminal(command: &mut Command) -> String {
    let (ours, theirs) = terminal();
    let mut child = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(theirs).spawn().unwrap();
    // The command holds the other end; what is left of it here would keep the terminal open.
    command.stderr(Stdio::null());
    let mut seen = Vec::new();
    // When nobody has the other end any more, reading fails.
    let _ = std::fs::File::from(ours).read_to_end(&mut seen);
    assert!(child.wait().unwrap().success(), "{}", text(&seen));
    text(&seen)
}

#[test]
fn what_takes_long_shows_on_a_terminal_how_far_it_is() {
    let folder = Folder::new("bars");
    let out = folder.path("");
    let all: [(&[&str], &[&str]); 4] = [
        (&["selftest", "--rounds", "2", "-n", "2"], &["selftest", "/2 rounds"]),
        (
            &["demo", "--size", "32", "--steps", "20", "--out", &out],
            &["heat", "one process, to check", "/20 steps"],
        ),
        (&["sim", "calibrate", "--rounds", "2"], &["measuring", "/2 rounds"]),
        (&["sim", "predict", "--rounds", "1"], &["measuring", "/2 rounds"]),
    ];
    for (words, parts) in all {
        let seen = on_terminal(&mut kumiki(words));
        assert!(parts.iter().all(|part| seen.contains(part)), "{words:?}: {seen:?}");
        let quiet = kumiki(words).output().unwrap();
        assert!(quiet.status.success() && quiet.stderr.is_empty(), "{words:?}: {}", text(&quiet.stderr));
    }
}

#[test]
fn the_self_test_is_right_everywhere() {
    let same_node: &[&str] = &["selftest", "--rounds", "3", "--seed", "5"];
    let other_nodes: &[&str] = &["selftest", "--rounds", "3", "-n", "5", "--virtual-nodes", "3"];
    for (words, process_vm, ranks) in [(same_node, "auto", 4), (same_node, "off", 4), (other_nodes, "off", 5)]
    {
        let printed = printed(kumiki(words).env("KUMIKI_PROCESS_VM", process_vm));
        assert_eq!(printed.matches(" 0 errors\n").count(), ranks, "{printed}");
        assert!(printed.contains("all results right"), "{printed}");
    }
}

#[test]
fn the_self_test_is_a_rank_program_under_the_launcher() {
    let program = env!("CARGO_BIN_EXE_kumiki");
    let printed =
        printed(&mut kumiki(&["run", "-n", "2", program, "selftest", "--rounds", "2", "--seed", "9"]));
    assert!(printed.contains("selftest: 2 ranks on 1 nodes"), "{printed}");
    assert!(printed.contains("2 rounds, seed 9: all results right"), "{printed}");
}

#[test]
fn every_rank_reports_its_memory_and_it_is_within_the_budget() {
    let folder = Folder::new("mem");
    let picture = folder.path("mem.png");
    for ranks in ["2", "100"] {
        let printed = printed(&mut kumiki(&["mem", "-n", ranks, "--json", "--png", &picture]));
        let report: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(report["ranks"].to_string(), ranks);
        let most = report["added_private_bytes"]["max"].as_u64().unwrap();
        assert!(0 < most && most <= 16 << 10, "{report}");
        assert!(report["arena_bytes_per_rank"].as_u64().unwrap() >= 4096, "{report}");
        assert!(report["node_pss_bytes"].as_u64().unwrap() > 0, "{report}");
        let entry = report["object_bytes"]["map_entry"].as_f64().unwrap();
        assert!(0.0 < entry && entry <= 48.0, "{report}");
        assert!(folder.is_picture("mem.png"));
    }
    let table = printed(&mut kumiki(&["mem", "-n", "2"]));
    assert!(table.contains("private memory added by init") && table.contains("16 KiB  OK"), "{table}");
    assert!(table.contains("map entry"), "{table}");
}

/// Page tables are pages: with few neighbours their number says more than the bytes for each.
#[test]
fn a_rank_that_touched_its_neighbours_had_a_page_table_for_each() {
    let report = printed(&mut kumiki(&["mem", "-n", "64", "--touch", "all", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let touched = &report["touched"];
    assert_eq!(touched["neighbours"], 63, "{report}");
    let pages = |part: &str| touched[part]["bytes"].as_u64().unwrap() / 4096;
    // Each part of 64 ranks lies in 2 or 4 MiB, so in two or three page tables; there may be one above them.
    assert!(pages("starter") <= 6, "{report}");
    assert!(pages("heap") <= 6 && pages("pool") <= 6, "{report}");
    let table = printed(&mut kumiki(&["mem", "-n", "3", "--touch", "1"]));
    assert!(table.contains("a rank that touches 1 neighbours"), "{table}");
    assert!(table.contains("starter memory") && table.contains("pool, malloc and free"), "{table}");
}

#[test]
fn a_program_that_never_joins_has_nothing_to_report() {
    let complaint = complaint(&mut kumiki(&["mem", "-n", "2", "--", "true"]));
    assert!(complaint.contains("0 of 2 ranks have reported"), "{complaint}");
}
