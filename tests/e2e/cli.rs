//! The commands that look at the machine and at the build, and the help of all of them.

use crate::strangers::Folder;
use serde_json::Value;
use std::process::{Command, Output};

fn kumiki(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki"));
    // A variable of whoever runs the tests must not change what is tested.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KUMIKI_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn output(command: &mut Command) -> (Output, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

/// Every command that users see, as the words after `kumiki`, from the names of the manual pages.
fn commands() -> Vec<Vec<String>> {
    let folder = Folder::new("commands");
    let (done, _, err) = output(kumiki(&["man", "--dir"]).arg(&folder.0));
    assert!(done.status.success(), "{err}");
    let mut names: Vec<Vec<String>> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // The name of one command has such a letter itself.
        .map(|name| name.trim_end_matches(".1").replace("waitio-serv", "waitio_serv"))
        .map(|name| name.split('-').skip(1).map(|word| word.replace('_', "-")).collect())
        .filter(|words: &Vec<String>| !words.is_empty())
        .collect();
    names.sort();
    names
}

#[test]
fn doctor_tells_what_it_found_in_json_and_in_text() {
    let (done, out, err) = output(&mut kumiki(&["doctor", "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 20, "{out}");
    let worst = checks.iter().any(|check| check["status"] == "FAIL");
    assert_eq!(done.status.code(), Some(worst as i32), "{out}");
    for check in checks {
        let status = check["status"].as_str().unwrap();
        assert!(["OK", "WARN", "FAIL"].contains(&status), "{check}");
        assert!(!check["name"].as_str().unwrap().is_empty() && !check["found"].as_str().unwrap().is_empty());
        assert!(status == "OK" || check["remedy"].is_string(), "no remedy: {check}");
    }
    for name in ["shared memory", "loopback", "process descriptors"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["status"], "OK", "{check}");
    }

    let (_, out, _) = output(&mut kumiki(&["doctor"]));
    assert!(!out.contains('\x1b'), "colour although this is no terminal: {out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("OK")).count(), count(checks, "OK"), "{out}");
}

fn count(checks: &[Value], status: &str) -> usize {
    checks.iter().filter(|check| check["status"] == status).count()
}

#[test]
fn doctor_fails_where_kumiki_cannot_work() {
    let shell = format!("ulimit -n 18; exec {} doctor", env!("CARGO_BIN_EXE_kumiki"));
    let (done, out, _) = output(Command::new("sh").arg("-c").arg(shell));
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains("FAIL  open files") && out.contains("raise the hard limit"), "{out}");
}

#[test]
fn doctor_names_a_network_that_is_not_there() {
    let (done, out, _) = output(kumiki(&["doctor"]).env("KUMIKI_NET", "203.0.113.0/24"));
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains("no address of this machine is in KUMIKI_NET=203.0.113.0/24"), "{out}");
}

#[test]
fn info_has_the_version_the_sizes_and_every_variable() {
    let (done, out, err) = output(&mut kumiki(&["info", "--json"]));
    assert!(done.status.success(), "{err}");
    let info: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["build"]["version"], env!("CARGO_PKG_VERSION"));
    let sizes = info["sizes"].as_array().unwrap();
    for size in sizes.iter().filter(|size| !size["at_most"].is_null()) {
        assert!(size["bytes"].as_u64() <= size["at_most"].as_u64(), "a promise is broken: {size}");
    }
    // The ledger of a world of one has been asked.
    assert!(sizes.iter().any(|size| size["name"].as_str().unwrap().contains("operation")), "{out}");

    let (_, text, _) = output(&mut kumiki(&["info"]));
    let (_, page, _) = output(&mut kumiki(&["info", "--environment-markdown"]));
    for variable in info["environment"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(text.contains(name) && page.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn a_full_disk_is_told_and_is_no_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let all: [&[&str]; 6] = [
        &["info"],
        &["selftest", "--rounds", "1"],
        &["mem", "--json"],
        &["bench", "mem", "--list"],
        &["sim", "run", "ring", "--net", "torus:4"],
        &["--help"],
    ];
    for words in all {
        let done = kumiki(words).stdout(full()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && told.contains("cannot print"), "{words:?}: {told}");
        assert!(!told.contains("panicked"), "{words:?}: {told}");
    }
}

#[test]
fn a_reader_that_leaves_ends_a_command_without_a_word() {
    let all: [&[&str]; 5] = [
        &["info"],
        &["bench", "mem", "--list"],
        &["bench", "data", "--quick", "--samples", "1", "--only", "map.entry", "--peers", "none", "--json"],
        &["sim", "run", "ring", "--net", "torus:4"],
        &["run", "--help"],
    ];
    for words in all {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = kumiki(words).stdout(writer).output().unwrap();
        // As whoever is ended by SIGPIPE.
        assert_eq!(done.status.code(), Some(141), "{words:?}");
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(told.lines().all(|line| line.contains("this machine is busy")), "{words:?}: {told}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let job = kumiki(&["selftest", "--rounds", "1", "-n", "2"]).stdout(writer).output().unwrap();
    assert_eq!((job.status.code(), String::from_utf8_lossy(&job.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_full_standard_error_is_no_panic() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let words = ["bench", "data", "--quick", "--samples", "1", "--only", "map.entry", "--peers", "redis"];
    let done = kumiki(&words).env("PATH", "/nowhere").stderr(full).output().unwrap();
    assert!(done.status.success() && !done.stdout.is_empty(), "{:?}", done.status);
}

#[test]
fn launchers_of_acp_panicked_when_standard_error_was_full() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (words, code) in [
        (&["acprun", "-what"][..], 1),
        (&["acprun", "-debug", "-np", "1", "true"], 0),
        (&["macprun", "-what"], 1),
        (&["macprun", "/nowhere/at/all"], 1),
    ] {
        let done = kumiki(words).stderr(full()).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_socket_as_standard_input_could_not_be_read() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    std::io::Write::write_all(&mut ours, b"# a job\nmany\n").unwrap();
    drop(ours);
    let (done, _, err) = output(kumiki(&["macprun", "-"]).stdin(std::os::fd::OwnedFd::from(theirs)));
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("line 2 of standard input: `many`"), "{err}");
}

/// Only root can plant one.
#[test]
fn pages_and_traces_went_where_a_link_of_another_user_leads() {
    let folder = Folder::new("led-astray");
    let (victim, link) = (folder.0.join("victim"), folder.0.join("kumiki.1"));
    std::fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    if std::os::unix::fs::lchown(&link, Some(12345), None).is_err() {
        return;
    }
    let mut trace = kumiki(&["run", "-n", "1", "--trace"]);
    for command in [kumiki(&["man", "--dir"]).arg(&folder.0), trace.arg(&link).arg("true")] {
        let (done, _, err) = output(command);
        assert!(!done.status.success() && err.contains("a link of another user"), "{err}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    }
}

/// As a shell gives them by `>(…)`.
#[test]
fn a_trace_could_not_go_into_a_pipe() {
    let (done, _, err) = output(&mut kumiki(&["run", "-n", "1", "--trace", "/dev/stderr", "true"]));
    assert!(done.status.success() && err.starts_with("[\n") && err.ends_with("]\n"), "{err}");
}

#[test]
fn a_full_disk_leaves_no_half_of_a_picture() {
    let folder = Folder::new("full-disk");
    let script = "mount -t tmpfs -o size=16k none \"$1\" && touch \"$1/mounted\" || exit 77
        \"$2\" mem -n 1 --png \"$1/mem.png\"; code=$?; echo left: $(ls -A \"$1\") >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    let (done, _, err) = output(command.arg(&folder.0).arg(env!("CARGO_BIN_EXE_kumiki")));
    if done.status.code() == Some(77) || err.contains("unshare:") {
        println!("skipped: no file system can be mounted here: {err}");
        return;
    }
    assert_eq!(done.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot write the picture") && err.ends_with("left: mounted\n"), "{err}");
}

#[test]
fn info_does_not_mind_a_reader_that_leaves() {
    let shell = format!("{} info | head -n 1", env!("CARGO_BIN_EXE_kumiki"));
    let (_, _, err) = output(Command::new("sh").arg("-c").arg(shell));
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let (done, out, err) = output(&mut kumiki(&["completions", shell]));
        assert!(done.status.success(), "{err}");
        assert!(out.contains("virtual-nodes") && out.contains("doctor"), "{shell}: {out}");
    }
    let (done, _, err) = output(&mut kumiki(&["completions", "bsh"]));
    assert_eq!(done.status.code(), Some(2));
    assert!(err.contains("'bash'"), "{err}");
}

#[test]
fn every_command_has_a_manual_page_and_an_example_in_its_help() {
    let commands = commands();
    let named = |word: &str| commands.iter().any(|words| words == &[word]);
    assert!(["run", "doctor", "info", "completions", "man"].iter().all(|word| named(word)), "{commands:?}");
    assert!(!named("agent"), "the agent is not for users");
    for words in commands {
        let (done, out, _) = output(kumiki(&[]).args(&words).arg("--help"));
        assert!(done.status.success(), "{words:?}");
        assert!(out.contains("Example"), "kumiki {} --help has no example:\n{out}", words.join(" "));
    }
}

#[test]
fn the_help_shows_every_command_in_a_group() {
    let (done, out, _) = output(&mut kumiki(&["--help"]));
    assert!(done.status.success());
    for words in commands().iter().filter(|words| words.len() == 1) {
        let line = out.lines().find(|line| line.starts_with(&format!("  {} ", words[0])));
        assert!(line.is_some(), "{} is not in the help:\n{out}", words[0]);
    }
    assert!(!out.contains("\nMore:"), "a command is in no group of crates/cli/src/help.rs:\n{out}");
    assert!(out.contains("Examples:") && !out.contains("agent"), "{out}");
}

#[test]
fn an_unknown_command_is_answered_with_the_nearest() {
    let all: [(&[&str], &str); 4] = [
        (&["dcotor"], "'doctor'"),
        (&["rnu", "-n", "2", "true"], "'run'"),
        (&["sim", "rnu"], "'run'"),
        (&["bench", "mme"], "'mem'"),
    ];
    for (words, meant) in all {
        let (done, _, err) = output(&mut kumiki(words));
        assert_eq!(done.status.code(), Some(2));
        assert!(err.contains(meant), "{words:?}: {err}");
    }
}

#[test]
fn a_wrong_variable_is_named_and_not_its_option() {
    let all: [(&[&str], &str, &str); 8] = [
        (&["run", "true"], "KUMIKI_RANKS", "many"),
        (&["selftest", "--rounds", "1"], "KUMIKI_RANKS", "0"),
        (&["selftest", "--rounds", "1"], "KUMIKI_STARTER", "big"),
        (&["run", "true"], "KUMIKI_BIND", "chair"),
        (&["run", "true"], "KUMIKI_NET", "bogus"),
        (&["run", "true"], "KUMIKI_PORTS", "x"),
        (&["run", "true"], "KUMIKI_PEER_TIMEOUT", "0"),
        (&["acprun", "-np", "1", "true"], "KUMIKI_BUDGET", "lots"),
    ];
    for (words, name, value) in all {
        let (done, _, err) = output(kumiki(words).env(name, value));
        assert_eq!(done.status.code(), Some(2), "{words:?} {name}={value}: {err}");
        let first = err.lines().next().unwrap_or_default();
        assert!(first.contains(name) && !first.contains("--"), "{words:?} {name}={value}: {err}");
    }
    let (_, _, err) = output(kumiki(&["run", "-n", "many", "true"]).env("KUMIKI_RANKS", "2"));
    assert!(err.contains("--ranks") && !err.contains("KUMIKI_RANKS"), "{err}");
}

#[test]
fn a_program_of_the_current_folder_is_not_run_for_its_name() {
    let folder = Folder::new("path");
    let witness = folder.0.join("witness");
    for name in ["ssh", "heat"] {
        let program = folder.0.join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho > {}\n", witness.display())).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for words in [&["run", "heat"][..], &["run", "--host", "far", "true"]] {
        // An entry without a name is the current folder, and so is a dot.
        let (done, _, err) = output(kumiki(words).env("PATH", "::.:/nowhere").current_dir(&folder.0));
        assert!(!done.status.success() && !witness.exists(), "{words:?}: {err}");
    }
}

#[test]
fn an_unknown_variable_is_answered_with_the_nearest_by_every_command_once() {
    let all: [&[&str]; 5] =
        [&["info"], &["man"], &["completions", "bash"], &["doctor", "--json"], &["run", "-n", "2", "true"]];
    for arguments in all {
        let (_, _, err) = output(kumiki(arguments).env("KUMIKI_VIRTUALNODES", "2"));
        let said = err.matches("there is no variable KUMIKI_VIRTUALNODES").count();
        assert_eq!(said, 1, "{arguments:?}: {err}");
        assert!(err.contains("maybe you meant KUMIKI_VIRTUAL_NODES"), "{err}");
    }
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let read =
        |path: &str| std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let example = read("examples/hello.rs");
    let program = &example[example.find("use kumiki::World;").unwrap()..];
    assert!(read("README.md").contains(program));
    let documented: String =
        program.lines().map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect();
    assert!(read("crates/kumiki/src/lib.rs").contains(&documented));
}
