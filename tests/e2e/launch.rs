//! Exit codes, signals, streams, and what is left behind.

use crate::job::{send_signal, Job};
use crate::strangers::Folder;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A file that is not there yet: ranks wait for it by `until=`.
struct Gate {
    path: PathBuf,
    _folder: Folder,
}

impl Gate {
    fn new(name: &str) -> Gate {
        let folder = Folder::new(name);
        Gate { path: folder.0.join("open"), _folder: folder }
    }

    /// The step of a rank that waits.
    fn step(&self) -> String {
        format!("until={}", self.path.display())
    }

    fn open(&self) {
        std::fs::write(&self.path, "").unwrap();
    }
}

#[test]
fn success_is_silent() {
    let ended = Job::new(&["-n", "3"], &["sh", "-c", "echo $KUMIKI_RANK of $KUMIKI_RANKS"]).run();
    let text = ended.stdout();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3", "1 of 3", "2 of 3"]);
    assert_eq!((ended.code(), ended.stderr().as_str()), (Some(0), ""));
}

#[test]
fn the_exit_code_is_that_of_the_first_rank_that_fails() {
    let exit = |script: &str| Job::new(&["-n", "2"], &["sh", "-c", script]).run();
    exit("test $KUMIKI_RANK = 0 || exit 7; sleep 20").expect(7, "rank 1 exited with code 7");
    exit("test $KUMIKI_RANK = 0 || kill -9 $$; sleep 20").expect(137, "killed by signal 9 (SIGKILL)");
    exit("test $KUMIKI_RANK = 0 || kill -SEGV $$; sleep 20").expect(139, "SIGSEGV");
}

#[test]
fn a_program_that_is_not_there_is_named_before_anything_starts() {
    for options in [&["-n", "2"][..], &["-n", "2", "--virtual-nodes", "2"]] {
        Job::new(options, &["no-such-program"])
            .run()
            .expect(127, "there is no program no-such-program in PATH");
        Job::new(options, &["./no-such-program"]).run().expect(127, "there is no program ./no-such-program");
        Job::new(options, &["/etc/passwd"]).run().expect(126, "/etc/passwd is not a program that can be run");
    }
    Job::new(&["-n", "2", "--wdir", "/no/such/dir"], &["true"]).run().expect(2, "--wdir");
}

#[test]
fn wrong_options_say_what_would_be_right() {
    for (options, said) in [
        (&["-n", "0"][..], "a whole number, at least 1"),
        (&["-n", "many"], "a whole number, at least 1"),
        (&["-n", "2", "--ppn", "0"], "a whole number, at least 1"),
        (&["-n", "1", "--virtual-nodes", "2"], "between 1 and the number of ranks"),
        (&["-n", "1", "--netns"], "--virtual-nodes"),
        (&["-n", "2", "--virtual-nodes", "2", "--link-rate", "1G"], "add --netns"),
        (&["-n", "1", "--link-rate", "fast"], "100M or 2.5G bits a second"),
        (&["-n", "1", "--link-queue", "100"], "2K or more"),
        (&["-n", "1", "--timeout", "soon"], "500ms, 15s or 2m"),
        (&["-n", "1", "--budget", "lots"], "64K, 4M or 1G"),
        (&["-n", "1", "--env", "E2E_NO_SUCH"], "no such variable"),
        (&["-n", "1", "--host=-x"], "not the name of a host"),
        (&["-n", "1", "--hostfile", "/no/such/file"], "cannot read the hostfile"),
        (&["-n", "1", "--hostfile", "/dev/zero"], "longer than"),
        (&["-n", "4294967296"], "at least 1 and at most 1048576"),
        (&["-n", "1", "--peer-timeout", "0"], "100ms or more"),
        (&["-n", "1", "--timeout", "0"], "more than 0"),
    ] {
        Job::new(options, &["true"]).run().expect(2, said);
    }
    for (options, said) in [
        (&["-n2", "--virtualnodes", "2"][..], "'--virtual-nodes'"),
        (&["--oversubscribe", "-n", "2"], "unexpected argument '--oversubscribe'"),
        (&["-np", "2"], "a whole number, at least 1"),
    ] {
        Job::new(options, &["true"]).run().expect(2, said);
    }
    Job::new(&["-n", "2"], &[""]).run().expect(2, "no program was given");
}

#[test]
fn what_follows_the_program_is_its_own_and_what_comes_before_is_ours() {
    let show =
        ["sh", "-c", r#"echo "$KUMIKI_RANKS: $*""#, "sh", "-n", "5", "--timeout", "-x", "--", "--help"];
    for options in [&["-n2"][..], &["-n=2"], &["-n", "2"], &["--ranks=2", "--"]] {
        Job::new(options, &show).run().expect(0, "2: -n 5 --timeout -x -- --help");
    }
}

#[test]
fn this_machine_is_not_reached_by_ssh() {
    for host in ["localhost:2", "127.0.0.1,::1"] {
        let job = Job::new(&["--host", host], &["/bin/sh", "-c", "echo $KUMIKI_RANK of $KUMIKI_RANKS"]);
        // There is no ssh.
        let ended = job.env("PATH", "/nowhere").run();
        ended.expect(0, "1 of 2");
        assert_eq!(ended.stderr(), "");
    }
}

#[test]
fn process_lists_show_an_agent_as_one() {
    Job::new(&["-n", "1"], &["sh", "-c", "cat /proc/$PPID/comm"]).run().expect(0, "kumiki-agent");
}

#[test]
fn whoever_reaches_other_hosts_is_named_when_it_fails() {
    let job = Job::new(&["--host", "nowhere", "--ssh", "/bin/false"], &["true"]).run();
    job.expect(1, "the agent of nowhere could not be started: /bin/false exited with code 1");
}

#[test]
fn a_variable_for_the_ranks_that_does_not_exist_is_answered_with_the_nearest() {
    let job = Job::new(&["-n", "1", "--env", "KUMIKI_BUGDET=4M"], &["true"]).run();
    job.expect(0, "--env KUMIKI_BUGDET: there is no such variable; maybe you meant KUMIKI_BUDGET");
}

#[test]
fn a_peer_timeout_may_be_as_long_as_anybody_likes() {
    for time in ["30000s", "1000000h"] {
        let options = ["-n", "2", "--virtual-nodes", "2", "--peer-timeout", time];
        let words = [env!("CARGO_BIN_EXE_kumiki"), "selftest", "--rounds", "1"];
        Job::new(&options, &words).run().expect(0, "");
    }
}

#[test]
fn limits_that_leave_no_room_for_the_arena_are_named() {
    for (limit, said) in
        [("-f 1000", "raise the limit (ulimit -f unlimited)"), ("-v 4000000", "(ulimit -v unlimited)")]
    {
        let line = format!("ulimit {limit}; exec {} run -n 2 true", env!("CARGO_BIN_EXE_kumiki"));
        let done = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && told.contains(said), "{line}: {:?} {told}", done.status);
    }
}

#[test]
fn ranks_join_leave_and_join_again() {
    for options in
        [&["-n", "4"][..], &["-n", "4", "--virtual-nodes", "2"], &["-n", "3", "--virtual-nodes", "3"]]
    {
        let ended = Job::ranks(options, "attach leave cycles=20").run();
        assert_eq!(ended.expect(0, "attached rank 2 of").stderr(), "");
    }
}

#[test]
fn a_rank_that_ends_without_leaving_ends_the_job() {
    for options in [&["-n", "3"][..], &["-n", "3", "--virtual-nodes", "3"]] {
        let job = |action: &str| Job::ranks(options, action).run();
        job("attach 1:exit=0 sleep_ms=20000").expect(1, "exited with code 0 without finalizing");
        job("attach 1:exit=5 sleep_ms=20000").expect(5, "exited with code 5 without finalizing");
        job("attach 1:abort sleep_ms=20000").expect(134, "SIGABRT");
        job("1:exit=0 attach sleep_ms=20000").expect(1, "before it joined");
        job("1:sleep_ms=200 1:exit=0 attach sleep_ms=20000").expect(1, "before it joined");
        job("attach leave 1:exit=4").expect(4, "exited with code 4");
    }
}

#[test]
fn the_report_says_what_the_others_waited_for() {
    let gate = Gate::new("waits");
    let job = Job::ranks(&["-n", "2"], &format!("1:{} 1:exit=3 attach", gate.step())).start();
    job.until_report("rank 0 waits in init");
    gate.open();
    let ended = job.wait();
    let report = ended.expect(3, "rank 1 exited with code 3").stderr();
    let (_, after) = report.split_once("rank 1 exited with code 3").unwrap();
    let for_so_long = after.lines().find_map(|line| line.trim().strip_prefix("rank 0 waits in init, for "));
    let number = for_so_long.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    assert!(number.is_some(), "{report}");
}

#[test]
fn a_rank_behind_a_script_is_watched_too() {
    let rank = crate::job::rank_command().join(" ");
    let script = format!("{rank}; sleep 20");
    Job::new(&["-n", "2"], &["sh", "-c", &script])
        .env(crate::rank::ACTION, "attach 1:abort sleep_ms=20000")
        .run()
        .expect(1, "rank 1 is lost: it exited without finalizing");
}

#[test]
fn with_on_loss_continue_the_job_goes_on() {
    // It ends once everybody is in: whoever is still on the way would be told that the world is broken.
    let meeting = Folder::new("goes-on");
    let action = format!("attach meet={} 1:exit=3 lost leave say=survived", meeting.0.display());
    let ended = Job::ranks(&["-n", "3", "--on-loss", "continue"], &action).run();
    ended.expect(3, "rank 1 exited with code 3");
    assert_eq!(ended.stdout().matches("survived").count(), 2);
}

#[test]
fn an_agent_forgets_the_process_of_a_rank_that_was_given_up() {
    // A descriptor of a process that has ended is always readable: an agent that still watched it would never sleep.
    let gate = Gate::new("given-up");
    let action = format!("attach 0:blame=1 1:sleep_ms=60000 {} leave", gate.step());
    let job = Job::ranks(&["-n", "2", "--on-loss", "continue"], &action).start();
    job.joined(2);
    let agent = job.wait_for(1, "kumiki agent")[0];
    while watched_processes(agent) != [false] {
        job.watch("the agent does not watch exactly one living process");
    }
    gate.open();
    job.wait().expect(1, "rank 1 is lost");
}

/// For each process that another process has a descriptor of, whether it has ended.
fn watched_processes(pid: u32) -> Vec<bool> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts
        .filter_map(|text| Some(text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim() == "-1"))
        .collect()
}

#[test]
fn an_abort_message_is_printed_once_with_the_rank() {
    for options in [&["-n", "3"][..], &["-n", "3", "--virtual-nodes", "3"]] {
        let ended = Job::ranks(options, "attach 2:end=enough sleep_ms=20000").run();
        ended.expect(1, "aborted the job: enough");
        assert_eq!(ended.stderr().matches("enough").count(), 1, "{}", ended.stderr());
    }
}

#[test]
fn a_reset_renumbers_the_ranks_or_is_refused_to_all() {
    for options in [&["-n", "3"][..], &["-n", "3", "--virtual-nodes", "3"]] {
        let action = "attach 0:reset=2 1:reset=0 2:reset=1 leave";
        let ended = Job::ranks(options, action).run();
        ended.expect(0, "reset to rank 2");
        let ended = Job::ranks(options, "attach reset=0 leave").run();
        ended.expect(0, "reset refused: ranks 0 and 1 both want to be rank 0");
        assert_eq!(ended.stdout().matches("refused").count(), 3);
    }
}

#[test]
fn output_is_tagged_line_by_line() {
    let script = "printf 'a\\nb\\nc'; printf 'x\\n' >&2";
    let ended = Job::new(&["-n", "2", "--tag-output"], &["sh", "-c", script]).run();
    let text = ended.stdout();
    for rank in 0..2 {
        let tag = format!("[{rank}] ");
        let mine: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&tag)).collect();
        assert_eq!(mine, ["a", "b", "c"]);
    }
    assert!(ended.stderr().contains("[0] x\n") && ended.stderr().contains("[1] x\n"));
}

#[test]
fn a_flood_of_output_arrives_whole() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo line-$i-0123456789012345678901234567890123456789; i=$((i+1)); done";
    let ended = Job::new(&["-n", "2", "--tag-output"], &["sh", "-c", script]).run();
    assert_eq!(ended.stdout().lines().count(), 6000);
    assert!(ended.stdout().lines().all(|line| line.ends_with("0123456789")));
}

#[test]
fn a_reader_may_take_its_time() {
    // More than the launcher keeps for it, and less than makes the rank wait: the rest is with an agent whose rank has ended.
    let bytes = 9_300_000;
    let script = format!("head -c {bytes} /dev/zero | tr '\\0' x");
    let mut launcher = std::process::Command::new(crate::job::kumiki());
    launcher.args(["run", "-n", "1", "--tag-output", "sh", "-c", &script]);
    launcher.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let child = launcher.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(7));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'x').count(), bytes);
}

#[test]
fn standard_input_goes_to_rank_0_and_ends() {
    let input: Vec<u8> = (0..200_000).flat_map(|i: u32| format!("{i}\n").into_bytes()).collect();
    let ended = Job::new(&["-n", "2"], &["wc", "-l"]).input(&input).run();
    let text = ended.stdout();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "200000"]);
    // A rank that does not read it does no harm.
    Job::new(&["-n", "2"], &["true"]).input(&input).run().expect(0, "");
}

#[test]
fn options_have_environment_forms_and_wrong_names_are_answered() {
    let ended =
        Job::ranks(&[], "attach leave").env("KUMIKI_RANKS", "3").env("KUMIKI_VIRTUAL_NODES", "2").run();
    ended.expect(0, "of 3");
    for (value, line) in
        [("yes", "[0] x\n"), ("1", "[0] x\n"), ("true", "[0] x\n"), ("no", "x\n"), ("0", "x\n"), ("", "x\n")]
    {
        let job = Job::new(&[], &["echo", "x"]).env("KUMIKI_TAG_OUTPUT", value).env("KUMIKI_RANKS", "");
        let ended = job.env("KUMIKI_TIMEOUT", "").env("KUMIKI_WDIR", "").run();
        assert_eq!((ended.code(), ended.stdout().as_str()), (Some(0), line), "{value}: {}", ended.stderr());
    }
    Job::new(&[], &["true"]).env("KUMIKI_NETNS", "maybe").run().expect(2, "maybe");
    let ended = Job::new(&["-n", "1"], &["true"]).env("KUMIKI_VIRTUALNODES", "2").run();
    ended.expect(0, "maybe you meant KUMIKI_VIRTUAL_NODES");
    let ended = Job::new(&["-n", "1", "--env", "A=b c"], &["sh", "-c", "echo \"<$A>\""]).run();
    ended.expect(0, "<b c>");
}

#[test]
fn a_timeout_ends_the_job_with_a_report() {
    let ended = Job::ranks(&["-n", "2", "--timeout", "500ms"], "attach 1:sleep_ms=30000 leave").run();
    ended.expect(124, "did not end within 0.5 s");
    let ended = Job::ranks(&["-n", "2", "--timeout", "2s"], "1:sleep_ms=30000 attach").run();
    // How far rank 0 has come by then depends on the machine.
    let report = ended.expect(124, "did not end within 2 s").stderr();
    assert!(
        ["waits in init", "has not joined"].iter().any(|it| report.contains(&format!("rank 0 {it}"))),
        "{report}"
    );
    assert!(report.contains("rank 1 has not joined"), "{report}");
}

#[test]
fn one_interrupt_is_passed_on_and_two_kill() {
    // The shells' children are there once the traps are set (the quotes tell their command lines from the
    // script); a trap runs at once when the shell waits.
    let shell = |script: &'static str| ["sh", "-c", script];
    let polite = "trap 'echo polite; kill $!; exit 0' INT; sleep 12\"\"34 & wait; wait";
    let job = Job::new(&["-n", "2"], &shell(polite)).start();
    job.wait_for(2, "sleep 1234");
    job.signal(libc::SIGINT);
    let ended = job.wait();
    assert_eq!(ended.code(), Some(130));
    assert_eq!(ended.stdout().matches("polite").count(), 2);

    let stubborn = "trap '' INT TERM; sleep 12\"\"34";
    let job = Job::new(&["-n", "2"], &shell(stubborn)).start();
    job.wait_for(2, "sleep 1234");
    job.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    job.signal(libc::SIGINT);
    assert_eq!(job.wait().code(), Some(130));

    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let job = Job::new(&["-n", "2"], &shell(stubborn)).start();
        job.wait_for(2, "sleep 1234");
        job.signal(signal);
        assert_eq!(job.wait().code(), Some(code), "killed after the grace");
    }
}

#[test]
fn signals_that_were_ignored_before_stay_so_except_the_ends_of_children() {
    Job::under("--ignore-signal=CHLD", &["-n", "1"], &["sh", "-c", "exit 3"])
        .run()
        .expect(3, "exited with code 3");

    let gate = Gate::new("ignored");
    let script = format!("until [ -e {} ]; do sleep 0.01; done", gate.path.display());
    let job = Job::under("--ignore-signal=HUP,INT,TSTP", &["-n", "1"], &["sh", "-c", &script]).start();
    job.ranks(1);
    [libc::SIGHUP, libc::SIGINT, libc::SIGTSTP].iter().for_each(|&signal| job.signal(signal));
    // It has seen what came before this, and of that the lower numbers first.
    job.until_report("who waits for whom");
    gate.open();
    job.wait().expect(0, "");
}

#[test]
fn sigusr2_prints_who_waits_for_whom() {
    let gate = Gate::new("sigusr2");
    let action = format!("2:{} attach leave", gate.step());
    let job = Job::ranks(&["-n", "3", "--virtual-nodes", "3"], &action).start();
    job.until_report("rank 0 waits in init");
    gate.open();
    let ended = job.wait();
    ended.expect(0, "rank 2 has not joined the world");
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    for signal in [libc::SIGKILL, libc::SIGABRT] {
        let job = Job::ranks(&["-n", "4", "--virtual-nodes", "2"], "attach sleep_ms=60000").start();
        job.joined(4);
        job.signal(signal);
        job.wait();
    }
}

#[test]
fn a_killed_agent_ends_the_job_and_leaves_nothing() {
    let job = Job::ranks(&["-n", "4", "--virtual-nodes", "2"], "attach sleep_ms=60000").start();
    job.joined(4);
    send_signal(job.wait_for(2, "kumiki agent")[0], libc::SIGKILL);
    job.wait().expect(1, "ended unexpectedly: it was killed by signal 9");
}

#[test]
fn the_families_of_ranks_go_with_a_killed_agent() {
    // Each of a chain of processes comes to us only when the one before it is gone.
    let chain = "sh -c 'sh -c \"sleep 12\"\"34; :\"; :'; :";
    let job = Job::new(&["-n", "2"], &["sh", "-c", chain]).start();
    job.wait_for(4, "sleep 1234");
    send_signal(job.wait_for(1, "kumiki agent")[0], libc::SIGKILL);
    job.wait().expect(1, "ended unexpectedly: it was killed by signal 9");
}

#[test]
fn processes_that_a_rank_leaves_behind_are_ended() {
    Job::new(&["-n", "2"], &["sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"]).run().expect(0, "");
}

#[test]
fn a_rank_stopped_for_less_than_the_timeout_is_not_lost_and_for_longer_is() {
    // Far less than the timeout, however slow the machine.
    let gate = Gate::new("stopped");
    let action = format!("attach {} leave", gate.step());
    let job = Job::ranks(&["-n", "2", "--peer-timeout", "30s"], &action).start();
    let ranks = job.joined(2);
    send_signal(ranks[1], libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(900));
    send_signal(ranks[1], libc::SIGCONT);
    gate.open();
    job.wait().expect(0, "");

    let job = Job::ranks(&["-n", "2", "--peer-timeout", "2s"], "attach sleep_ms=60000 leave").start();
    let ranks = job.joined(2);
    let start = Instant::now();
    send_signal(ranks[1], libc::SIGSTOP);
    job.wait().expect(1, "is lost: it was stopped for longer than the peer timeout");
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_rank_stopped_before_it_joins_does_not_keep_the_others_waiting() {
    for policy in ["abort", "continue"] {
        let gate = Gate::new("stopped-early");
        let action = format!("1:{} attach", gate.step());
        let options = ["-n", "2", "--peer-timeout", "1s", "--on-loss", policy];
        let job = Job::ranks(&options, &action).start();
        job.until_report("rank 0 waits in init");
        send_signal(job.ranks(2)[1], libc::SIGSTOP);
        let ended = job.wait();
        assert!(ended.code().is_some_and(|code| code != 0), "{}", ended.stderr());
        assert!(ended.stderr().contains("rank 1 is lost: it was stopped"), "{}", ended.stderr());
    }
}

#[test]
fn a_small_limit_of_open_files_is_named() {
    let kumiki = crate::job::kumiki();
    let script = format!("ulimit -n 40; exec {} run -n 64 true", kumiki.display());
    let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("64 ranks on a node need 160 open files"));
}

#[test]
fn a_job_does_not_care_whether_its_reports_can_be_read() {
    let kumiki = crate::job::kumiki();
    let code = |script: &str, action: &str| {
        let script = format!("exec {} run {script} 2>/dev/full", kumiki.display());
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(script).env(crate::rank::ACTION, action).stdin(std::process::Stdio::null());
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(code("-n 2 sh -c 'exit 3'", "").0, Some(3));
    assert_eq!(code("-n 2 --tag-output sh -c 'exit 3'", "").0, Some(3));
    // Agents have something to say about who knocks at the port.
    let rank = crate::job::rank_command().join(" ");
    let (ended, output) = code(&format!("-n 2 --virtual-nodes 2 {rank}"), "attach 0:pester leave");
    assert_eq!((ended, output.matches("pestered").count()), (Some(0), 1), "{output}");
}

#[test]
fn virtual_nodes_can_have_network_namespaces() {
    let ended = Job::ranks(&["-n", "4", "--virtual-nodes", "2", "--netns"], "attach leave").run();
    if ended.stderr().contains("--netns needs root or user namespaces") {
        return println!("skipped: {}", ended.stderr().trim());
    }
    ended.expect(0, "attached rank 3 of 4");
    assert!(!std::path::Path::new("/sys/class/net/kumiki0").exists());
}

#[test]
fn strangers_at_the_port_do_not_disturb_the_job() {
    let began = Instant::now();
    let ended = Job::ranks(&["-n", "2"], "attach 0:pester leave cycles=5").run();
    ended.expect(0, "pestered");
    let lines = ended.stderr().lines().filter(|line| line.contains("refused a connection")).count();
    // One line in ten seconds.
    let most = 1 + began.elapsed().as_secs() as usize / 10;
    assert!((1..=most).contains(&lines), "one line in a while, not one a connection: {}", ended.stderr());
}

#[test]
fn a_suspended_job_goes_on_where_it_was() {
    let gate = Gate::new("suspended");
    let action = format!("attach {} leave", gate.step());
    let job = Job::ranks(&["-n", "2", "--peer-timeout", "1s"], &action).in_own_group().start();
    let ranks = job.joined(2);
    job.signal(libc::SIGTSTP);
    while !ranks.iter().chain([&job.pid()]).all(|&pid| state(pid) == 'T') {
        job.watch("the ranks and the launcher are not stopped");
    }
    // Longer than the peer timeout.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(ranks.iter().all(|&pid| state(pid) == 'T'), "the ranks are stopped");
    gate.open();
    job.signal(libc::SIGCONT);
    job.wait().expect(0, "");
}

/// The state of a process: R, S, T for stopped, Z.
fn state(pid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).unwrap_or('?')
}
