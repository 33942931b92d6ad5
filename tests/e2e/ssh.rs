//! Hosts reached by ssh: a real sshd on the loopback, with keys and configuration of its own.

use crate::job::{send_signal, Job};
use crate::strangers::Folder;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running sshd, and the command that reaches it.
struct Server {
    child: Child,
    ssh: String,
    _folder: Folder,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server; `None`, with a printed reason, if there is none on this machine.
fn server(name: &str) -> Option<Server> {
    let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    let Some(sshd) = sshd else {
        println!("skipped: sshd is not installed");
        return None;
    };
    let folder = Folder::new(name);
    for key in ["host", "user"] {
        let path = folder.0.join(key);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        assert!(made.unwrap().success());
    }
    std::fs::copy(folder.0.join("user.pub"), folder.0.join("authorized")).unwrap();
    // sshd run by root insists on this folder; a package installs it, a container may lack it.
    let _ = std::fs::create_dir_all("/run/sshd");
    let address = crate::loopback::address();
    let base = folder.0.display();
    let config = format!(
        "ListenAddress {address}\nHostKey {base}/host\nAuthorizedKeysFile {base}/authorized\nStrictModes no\n\
         UsePAM no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n"
    );
    std::fs::write(folder.0.join("config"), config).unwrap();
    let child = Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(folder.0.join("config"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "sshd does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ssh = format!(
        "ssh -F none -o HostName={} -p {} -i {base}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        address.ip(),
        address.port()
    );
    Some(Server { child, ssh, _folder: folder })
}

#[test]
fn hosts_are_reached_by_ssh() {
    let Some(server) = server("ssh") else { return };
    let options = [
        "--host",
        "127.0.0.1:2,localhost:1",
        "--ssh",
        &server.ssh,
        "--env",
        "E2E_ACTION",
        "--env",
        "E2E_MARK",
    ];
    let ended = Job::ranks(&options, "attach leave").run();
    assert_eq!(ended.expect(0, "attached rank 2 of 3").stderr(), "");

    Job::ranks(&options, "attach 2:exit=6 sleep_ms=20000")
        .run()
        .expect(6, "rank 2 on localhost exited with code 6");

    let ended = Job::new(&options[..4], &["cat"]).input(b"one\ntwo").run();
    assert_eq!((ended.code(), ended.stdout().as_str()), (Some(0), "one\ntwo"));
}

#[test]
fn a_host_that_cannot_be_reached_or_has_no_kumiki_is_named() {
    let Some(server) = server("ssh-bad") else { return };
    let mut wrong = server.ssh.clone();
    wrong = wrong.replace("/user ", "/host ");
    let options = ["-n", "1", "--host", "127.0.0.1", "--ssh", &wrong];
    Job::new(&options, &["true"])
        .run()
        .expect(1, "the agent of 127.0.0.1 could not be started: ssh exited with code 255");
    let options = ["-n", "1", "--host", "127.0.0.1", "--ssh", "/no/such/ssh"];
    Job::new(&options, &["true"]).run().expect(2, "cannot start /no/such/ssh to reach 127.0.0.1");
    let options = ["-n", "2", "--host", "127.0.0.1", "--ssh", &server.ssh];
    Job::new(&options, &["no-such-program"]).run().expect(127, "there is no program no-such-program");
}

#[test]
fn a_broken_ssh_ends_the_job_on_both_sides() {
    let Some(server) = server("ssh-drop") else { return };
    let options = [
        "--host",
        "127.0.0.1:2,localhost:1",
        "--ssh",
        &server.ssh,
        "--env",
        "E2E_ACTION",
        "--env",
        "E2E_MARK",
    ];
    let job = Job::ranks(&options, "attach sleep_ms=60000").start();
    job.joined(3);
    let pid = job.wait_for(2, "BatchMode")[0];
    send_signal(pid, libc::SIGKILL);
    job.wait().expect(1, "ended unexpectedly: ssh was killed by signal 9");
}
