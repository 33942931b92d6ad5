//! `kumiki acprun`, also under the name `acprun`: starts programs written for ACP, with the options that the launcher of ACP has.

use super::{run, Outcome};
use kumiki_run::system::find_program;
use kumiki_run::{environment, is_here, parse_host, read_hostfile, say, Portfile, MAX_RANKS};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;

/// Starter memory of each rank when nobody says how much.
pub(super) const STARTER_BYTES: u64 = 1024;
/// Less memory than this for the data library is no limit.
const DATA_BYTES: u64 = 64 << 20;

/// More than any machine has.
const MOST_BYTES: u64 = 1 << 46;

/// A longer file of hosts or parts is something else, or never ends.
pub(super) const FILE_BYTES: u64 = 64 << 20;

const USAGE: &str = "\
usage: acprun [options] program [arguments]

  -n, -np N                          number of processes (also --acp-n=N, --acp-np=N, --acp-nprocs=N)
  -smemsize, -startermemsize BYTES   starter memory of each process, 1024 if not given
  -smemsize-dl, -startermemsize-dl BYTES
                                     the most memory of each process for the data library, if 64M or more; less is no limit
  -machinefile, -nodefile FILE       hosts, one a line, used in turn; `host slots=4` and `host:4` stand for four such lines
  -host, -node A,B:4                 the same as a list
  -rsh, -ssh, -remoteshell COMMAND   what reaches another host; ssh if not given
  -multirun -portfile FILE -offsetrank K
                                     be one part of a job that several launchers start: its first process has rank K, and
                                     FILE tells where the others are; macprun uses this
  -h, -v                             this text; the version

Every option is also taken in its long form, with the value behind `=`: --acp-smemsize=1M, --acp-machinefile=FILE, --acp-help.
Accepted, and of no effect here: -smemsize-cl, -startermemsize-cl BYTES; -net, -ndev, -envnet DEVICE; -mhooksmall, -mhooklarge, -mhookhuge,
-mhooklow N, -mhookhigh N (--acp-malloc-hook-small and so on); -ethspeed N (--acp-ethernet-speed=N); -debug. Options of `kumiki run` are taken from the environment (`kumiki info`), for instance
KUMIKI_VIRTUAL_NODES=2. The exit code is that of the first process that failed.
";

const EXAMPLES: &str = "\
Examples:
  acprun -np 4 ./heat                          four processes on this machine
  acprun -np 4 -smemsize 1M ./heat             with a mebibyte of starter memory each
  acprun -np 8 -nodefile hosts ./heat          on the hosts of a file, in turn
  kumiki acprun -h                             every option";

/// Start a program written for ACP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Options of acprun, the program, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    pub(super) processes: Option<u32>,
    pub(super) starter_bytes: Option<u64>,
    pub(super) data_bytes: Option<u64>,
    pub(super) hosts: Vec<String>,
    pub(super) remote_shell: Option<String>,
    pub(super) is_part: bool,
    pub(super) portfile: Option<String>,
    pub(super) offset: Option<u32>,
    /// Options that were accepted and have no effect.
    pub(super) idle: Vec<String>,
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) command: Vec<OsString>,
}

impl Wanted {
    /// The limit of the data library. Old programs ask for too little, and count on getting more.
    pub(super) fn pool_bytes(&self) -> Option<u64> {
        self.data_bytes.filter(|&bytes| bytes >= DATA_BYTES)
    }

    /// Tells about options that have no effect.
    pub(super) fn complain(&self, who: &str) {
        for option in &self.idle {
            say(&format!(
                "{who}: {option} has no effect: Kumiki uses shared memory and TCP, and needs no such setting"
            ));
        }
    }
}

/// Starts the program and stays until it has ended.
pub(crate) fn run(words: &[OsString]) -> Outcome {
    super::warn_of_unknown_variables();
    let wanted = match parse(words) {
        Ok(wanted) => wanted,
        Err(message) => {
            say(&format!("acprun: {message} (acprun -h lists the options)"));
            return Ok(1);
        }
    };
    if wanted.help {
        return super::print(USAGE);
    }
    if wanted.version {
        return super::print(concat!(
            "acprun (Kumiki ",
            env!("CARGO_PKG_VERSION"),
            "), the interface of ACP 3.0.0\n"
        ));
    }
    wanted.complain("acprun");
    run::run_words(words_for_run(wanted)?)
}

/// The same in the words of `kumiki run`, so that what acprun has no option for can be set in the environment.
fn words_for_run(wanted: Wanted) -> Result<Vec<OsString>, String> {
    let mut line: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: String| line.extend([OsString::from(name), value.into()]);
    let nodes = environment::number("KUMIKI_VIRTUAL_NODES").map_err(|error| error.to_string())?;
    if let Some(processes) = wanted.processes {
        add("-n", processes.to_string());
        // The variable stays the same for jobs of all sizes: a small one has a node for each process.
        if nodes.is_some_and(|nodes| nodes > processes) {
            add("--virtual-nodes", processes.to_string());
        }
    }
    let said = environment::bytes("KUMIKI_STARTER").map_err(|error| error.to_string())?;
    if wanted.starter_bytes.is_some() || said.is_none() {
        add("--starter", wanted.starter_bytes.unwrap_or(STARTER_BYTES).to_string());
    }
    if let Some(bytes) = wanted.pool_bytes() {
        add("--pool", bytes.to_string());
    }
    if let Some(command) = &wanted.remote_shell {
        add("--ssh", command.clone());
    }
    if let Some((portfile, offset)) = part(&wanted)? {
        add("--env", format!("KUMIKI_PORTFILE={portfile}"));
        add("--env", format!("KUMIKI_OFFSET_RANK={offset}"));
    }
    if !wanted.hosts.is_empty() {
        let said = environment::number("KUMIKI_RANKS").map_err(|error| error.to_string())?;
        let hosts = in_turn(&wanted.hosts, wanted.processes.or(said))?;
        let each = environment::number("KUMIKI_PPN").map_err(|error| error.to_string())?;
        if wanted.processes.or(said).or(each).is_none() {
            add("-n", hosts.len().max(nodes.unwrap_or(0) as usize).to_string());
        }
        if wanted.remote_shell.is_some() || !hosts.iter().all(|host| is_here(host)) {
            add("--host", hosts.join(","));
            line.push("--cyclic".into());
        }
    }
    line.push("--".into());
    line.extend(found(wanted.command));
    Ok(line)
}

/// The host of each process, as far as the list goes: one that takes several stands there as often.
fn in_turn(hosts: &[String], processes: Option<u32>) -> Result<Vec<String>, String> {
    let most = processes.unwrap_or(MAX_RANKS) as usize;
    let mut turns = Vec::new();
    for host in hosts {
        let host = parse_host(host).map_err(|why| format!("-host: {why}"))?;
        let free = most.saturating_sub(turns.len());
        turns.extend(std::iter::repeat_n(host.name, free.min(host.slots.unwrap_or(1) as usize)));
    }
    Ok(turns)
}

/// The part of a job that this is: the portfile, and the first rank.
fn part(wanted: &Wanted) -> Result<Option<(String, u32)>, String> {
    let (portfile, offset) = match (wanted.is_part, &wanted.portfile, wanted.offset) {
        (false, None, None) => return Ok(None),
        (true, Some(portfile), Some(offset)) => (portfile, offset),
        _ => return Err("-multirun, -portfile FILE and -offsetrank K go together".into()),
    };
    let processes = wanted.processes.ok_or("-multirun needs -np N: how many processes this part has")?;
    let path = std::path::absolute(portfile).map_err(|error| format!("-portfile {portfile}: {error}"))?;
    let path = path.to_str().ok_or_else(|| format!("-portfile {portfile}: its path is not UTF-8"))?;
    let ranks = Portfile::read(path).map_err(|error| error.to_string())?.ranks;
    if offset.checked_add(processes).is_none_or(|end| end > ranks) {
        return Err(format!(
            "-offsetrank {offset} and {processes} processes do not fit: by {portfile} all parts together have {ranks} ranks"
        ));
    }
    Ok(Some((path.to_owned(), offset)))
}

/// A program in the current folder may be named without `./`, if there is none of that name elsewhere.
pub(super) fn found(mut command: Vec<OsString>) -> Vec<OsString> {
    let Some(program) = command.first_mut() else { return command };
    let is_name = !program.as_encoded_bytes().contains(&b'/');
    if is_name && find_program(&*program).is_none() && Path::new(&program).is_file() {
        *program = Path::new(".").join(&program).into();
    }
    command
}

fn parse(words: &[OsString]) -> Result<Wanted, String> {
    let wanted = parse_options(words)?;
    if wanted.command.is_empty() && !wanted.help && !wanted.version {
        return Err("no program was given".into());
    }
    Ok(wanted)
}

/// As [`parse`], where the program may stand elsewhere.
pub(super) fn parse_options(words: &[OsString]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            wanted.command = rest.cloned().collect();
            break;
        }
        if !text.starts_with('-') {
            wanted.command = std::iter::once(word).chain(rest).cloned().collect();
            break;
        }
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (&*text, None),
        };
        let taken = Cell::new(false);
        let mut value = || {
            taken.set(true);
            let value =
                inline.clone().or_else(|| rest.next().map(|word| word.to_string_lossy().into_owned()));
            value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} needs a value"))
        };
        option(&mut wanted, name, &mut value)?;
        // The launcher of ACP has these with a value that says nothing.
        let may_have = name.starts_with("--acp-malloc-hook-");
        if inline.is_some() && !taken.get() && !may_have {
            return Err(format!("{name} takes no value"));
        }
    }
    Ok(wanted)
}

/// Takes one option.
fn option(
    wanted: &mut Wanted,
    name: &str,
    value: &mut dyn FnMut() -> Result<String, String>,
) -> Result<(), String> {
    let bytes = |value: String| {
        let bytes = environment::parse_bytes(&value).filter(|&bytes| bytes <= MOST_BYTES);
        bytes.ok_or_else(|| {
            format!(
                "{name} {value}: it should be a size such as 4096, 64K, 1M or 1G, {MOST_BYTES} bytes at most"
            )
        })
    };
    match name {
        "-n" | "-np" | "--acp-n" | "--acp-np" | "--acp-nprocs" => {
            let value = value()?;
            let processes = value.parse().ok().filter(|processes| (1..=MAX_RANKS).contains(processes));
            let wrong = || format!("{name} {value}: it should be a number from 1 to {MAX_RANKS}");
            wanted.processes = Some(processes.ok_or_else(wrong)?);
        }
        "-smemsize" | "-startermemsize" | "--acp-smemsize" | "--acp-startermemsize" => {
            wanted.starter_bytes = Some(bytes(value()?)?)
        }
        "-smemsize-dl" | "-startermemsize-dl" | "--acp-smemsize-dl" | "--acp-startermemsize-dl" => {
            wanted.data_bytes = Some(bytes(value()?)?)
        }
        "-smemsize-cl" | "-startermemsize-cl" | "--acp-smemsize-cl" | "--acp-startermemsize-cl" => {
            idle_value(wanted, name, &bytes(value()?)?.to_string())
        }
        "-machinefile" | "-nodefile" | "--acp-machinefile" | "--acp-nodefile" => {
            wanted.hosts = read_hosts(&value()?)?
        }
        "-host" | "-node" | "--acp-host" | "--acp-node" => {
            wanted.hosts = value()?.split(',').map(|host| host.trim().to_owned()).collect()
        }
        "-net" | "-ndev" | "-envnet" | "--acp-net" | "--acp-ndev" | "--acp-envnet" => {
            idle_value(wanted, name, &value()?)
        }
        "-rsh" | "-ssh" | "-remoteshell" | "--acp-rsh" | "--acp-ssh" | "--acp-remoteshell" => {
            wanted.remote_shell = Some(value()?)
        }
        "-mhooksmall" | "-mhooklarge" | "-mhookhuge" | "-debug" | "--acp-debug" => {
            wanted.idle.push(name.to_owned())
        }
        "--acp-malloc-hook-small" | "--acp-malloc-hook-large" | "--acp-malloc-hook-huge" => {
            wanted.idle.push(name.to_owned())
        }
        "-mhooklow" | "-mhookhigh" | "--acp-malloc-hook-low" | "--acp-malloc-hook-high" => {
            idle_value(wanted, name, &value()?)
        }
        "-ethspeed" | "--acp-ethernet-speed" => idle_value(wanted, name, &value()?),
        "-multirun" | "--acp-multirun" => wanted.is_part = true,
        "-portfile" | "--acp-portfile" => wanted.portfile = Some(value()?),
        "-offsetrank" | "--acp-offsetrank" => {
            let value = value()?;
            let offset = value.parse();
            wanted.offset =
                Some(offset.map_err(|_| format!("{name} {value}: it should be a number, 0 or more"))?);
        }
        "-h" | "-help" | "--help" | "--acp-help" => wanted.help = true,
        "-v" | "-version" | "--version" | "--acp-version" => wanted.version = true,
        _ => return Err(format!("there is no option {name}")),
    }
    Ok(())
}

fn idle_value(wanted: &mut Wanted, name: &str, value: &str) {
    wanted.idle.push(format!("{name} {value}"));
}

/// The hosts of a file, as `-host` takes them.
fn read_hosts(path: &str) -> Result<Vec<String>, String> {
    let hosts = read_hostfile(Path::new(path)).map_err(|error| error.to_string())?;
    let bracketed = |name: String| if name.contains(':') { format!("[{name}]") } else { name };
    Ok(hosts
        .into_iter()
        .map(|host| match host.slots {
            Some(slots) => format!("{}:{slots}", bracketed(host.name)),
            None => host.name,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Wanted, String> {
        parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_at_the_program() {
        let wanted = parsed("-np 4 -smemsize 2K ./a -np 9 -x").unwrap();
        assert_eq!((wanted.processes, wanted.starter_bytes), (Some(4), Some(2048)));
        assert_eq!(wanted.command, ["./a", "-np", "9", "-x"]);
        let wanted = parsed("--acp-nprocs=3 --acp-startermemsize=5 --acp-envnet=udp a").unwrap();
        assert_eq!((wanted.processes, wanted.starter_bytes), (Some(3), Some(5)));
        assert_eq!(wanted.idle, ["--acp-envnet udp"]);
    }

    /// Every spelling that the launcher of ACP takes.
    const SPELLINGS: &str = "\
        -n 2|-np 2|--acp-n=2|--acp-np=2|--acp-nprocs=2|-smemsize 9|-startermemsize 9|--acp-smemsize=9|--acp-startermemsize=9|\
        -smemsize-cl 9|-startermemsize-cl 9|--acp-smemsize-cl=9|--acp-startermemsize-cl=9|\
        -smemsize-dl 9|-startermemsize-dl 9|--acp-smemsize-dl=9|--acp-startermemsize-dl=9|\
        -machinefile HOSTS|-nodefile HOSTS|--acp-machinefile=HOSTS|--acp-nodefile=HOSTS|\
        -host a,b|-node a,b|--acp-host=a,b|--acp-node=a,b|\
        -net ib|-ndev udp|-envnet tofu|--acp-net=ib|--acp-ndev=udp|--acp-envnet=tofu|\
        -rsh x|-ssh x|-remoteshell x|--acp-rsh=x|--acp-ssh=x|--acp-remoteshell=x|\
        -multirun|--acp-multirun|-portfile f|--acp-portfile=f|-offsetrank 1|--acp-offsetrank=1|\
        -mhooksmall|-mhooklarge|-mhookhuge|-mhooklow 1|-mhookhigh 2|--acp-malloc-hook-small=1|--acp-malloc-hook-large=1|\
        --acp-malloc-hook-huge=1|--acp-malloc-hook-low=1|--acp-malloc-hook-high=1|-ethspeed 1000|--acp-ethernet-speed=1000|\
        -debug|--acp-debug|-h|-help|--help|--acp-help|-v|-version|--version|--acp-version";

    #[test]
    fn spellings_of_the_original_were_refused() {
        let hosts = Hostfile(std::env::temp_dir().join(format!("kumiki-acprun-{}", std::process::id())));
        std::fs::write(&hosts.0, "a\nb\n").unwrap();
        let hosts_text = hosts.0.to_str().unwrap();
        let mut count = 0;
        for spelling in SPELLINGS.split('|').map(str::trim) {
            let line = format!("{} ./a", spelling.replace("HOSTS", hosts_text));
            let wanted = parsed(&line).unwrap_or_else(|error| panic!("{spelling}: {error}"));
            assert_eq!(wanted.command, ["./a"], "{spelling}");
            // Each has its effect, or is told to have none.
            let plain = Wanted { command: wanted.command.clone(), ..Wanted::default() };
            assert_ne!(wanted, plain, "{spelling}");
            count += 1;
        }
        assert!(count >= 64, "{count}");
        assert_eq!(parsed("--acp-host=a,b ./a").unwrap().hosts, ["a", "b"]);
        assert_eq!(parsed("--acp-smemsize-dl=100M ./a").unwrap().pool_bytes(), Some(100 << 20));
    }

    #[test]
    fn every_option_of_the_usage_is_taken() {
        let line = "-n 2 -startermemsize 9 -smemsize-cl 1 --acp-startermemsize-cl=1 --acp-startermemsize-dl=1 \
                    -host a,b -node a -rsh x -ssh y -remoteshell z -net ib -ndev udp -envnet tofu -mhooksmall \
                    -mhooklarge -mhookhuge -mhooklow 1 -mhookhigh 2 -ethspeed 1000 -debug ./a";
        let line: Vec<&str> = line.split_whitespace().collect();
        let wanted = parsed(&line.join(" ")).unwrap();
        assert_eq!((wanted.hosts, wanted.remote_shell), (vec!["a".to_string()], Some("z".into())));
        assert_eq!(wanted.idle.len(), 12);
    }

    #[test]
    fn little_memory_for_data_is_no_limit() {
        let words = |line: &str| words_for_run(parsed(line).unwrap()).unwrap();
        assert!(!words("-smemsize-dl 1000 ./a").contains(&"--pool".into()));
        assert!(words("--acp-startermemsize-dl=100M ./a").contains(&"--pool".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, said) in [
            ("-np", "needs a value"),
            ("-np x a", "from 1 to"),
            ("-np 0 a", "from 1 to"),
            ("-np 4294967296 a", "from 1 to 1048576"),
            ("-multirun=no a", "-multirun takes no value"),
            ("--acp-debug=0 a", "--acp-debug takes no value"),
            ("-h=x", "-h takes no value"),
            ("-what a", "there is no option -what"),
            ("-np 4", "no program"),
            ("-smemsize big a", "a size"),
            ("-nodefile /nowhere/at/all a", "cannot read"),
            ("-offsetrank x a", "0 or more"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn a_part_needs_all_of_its_options() {
        for (line, said) in [
            ("-multirun a", "go together"),
            ("-portfile f a", "go together"),
            ("-multirun -offsetrank 1 a", "go together"),
            ("-multirun -portfile f -offsetrank 1 a", "-np N"),
            ("-np 2 -multirun -portfile /nowhere/at/all -offsetrank 1 a", "No such file"),
        ] {
            let error = words_for_run(parsed(line).unwrap()).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn hosts_that_are_this_machine_need_no_remote_shell() {
        let words = |line: &str| words_for_run(parsed(line).unwrap()).unwrap();
        assert!(!words("-np 2 -host LOCALHOST,127.0.0.2 ./a").contains(&"--host".into()));
        assert!(words("-np 2 -host localhost,other ./a").contains(&"--cyclic".into()));
        assert!(words("-np 2 -ssh x -host localhost ./a").contains(&"--host".into()));
        assert!(!words("-np 6 -host localhost:4,[::1]:2 ./a").contains(&"--host".into()));
    }

    /// A file that is gone when this is.
    struct Hostfile(std::path::PathBuf);

    impl Drop for Hostfile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn slots_in_a_file_of_machines_were_refused() {
        let made = Hostfile(std::env::temp_dir().join(format!("kumiki-slots-{}", std::process::id())));
        let file = &made.0;
        let hosts = |text: &str, count: &str| {
            std::fs::write(file, text).unwrap();
            let line = parsed(&format!("{count}-machinefile {} ./a", file.display()))?;
            let words = words_for_run(line)?;
            let value = |name: &str| {
                let at = words.iter().position(|word| word == name)?;
                words.get(at + 1).map(|word| word.to_string_lossy().into_owned())
            };
            Ok::<_, String>((value("-n"), value("--host")))
        };
        let some = |text: &str| Some(text.to_owned());
        let mixed = "\u{feff}# mine\r\na slots=2\r\n\r\nb:2 # c\r\na\r\nfe80::1 slots=2\r\n";
        assert_eq!(hosts(mixed, "").unwrap(), (some("7"), some("a,a,b,b,a,fe80::1,fe80::1")));
        assert_eq!(hosts(mixed, "-np 3 ").unwrap(), (some("3"), some("a,a,b")));
        assert_eq!(hosts("a slots=2\nb\n", "-np 9 ").unwrap(), (some("9"), some("a,a,b")));
        assert_eq!(hosts("localhost slots=2\n127.0.0.1\n", "").unwrap(), (some("3"), None));
        let place = format!("line 2 of {}: ", file.display());
        for wrong in ["a\nb c\n", "a\nb:x\n", "a\nb slots=0\n", "a\n-oProxyCommand=x\n", "a\nb,c\n"] {
            let error = hosts(wrong, "-np 2 ").unwrap_err();
            assert!(error.contains(&place), "{wrong}: {error}");
        }
    }
}
