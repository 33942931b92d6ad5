//! `kumiki macprun`, also under the name `macprun`: several launchers, each with its program, make one world.

use super::acprun::{self, Wanted, FILE_BYTES, STARTER_BYTES};
use super::mpi_family as family;
use super::Outcome;
use kumiki_run::parts::{self, Part, Parts};
use kumiki_run::system::{find_program, read_text, read_text_from};
use kumiki_run::{environment, say};
use std::ffi::OsString;
use std::path::Path;

const USAGE: &str = "\
usage: macprun [options] FILE      (FILE may be -: standard input)

FILE describes a job in parts. `#` begins a comment, blank lines do not count; then come, each on its own line:

  the number k of parts
  k launchers with their options: acprun, mpirun, mpiexec, srun, ...
  k numbers of processes
  k programs with their arguments

Every part is started by its launcher; ranks are numbered through all parts in order, and all are in one world. Words are separated by
blanks; '...' and \"...\" keep them together, and no shell looks at them.

  -smemsize, -startermemsize BYTES   starter memory of each process, 1024 if neither this nor an acprun line says so
  -smemsize-dl BYTES                 the most memory of each process for the data library, if 64M or more
  -machinefile, -nodefile FILE; -host, -node A,B; -rsh, -ssh, -remoteshell COMMAND
                                     hosts, and how to reach them, for the acprun lines that name none
  -n, -np N                          how many processes all parts have together; FILE says so, this is only compared with it
  -portfile PATH                     where to make the file by which the parts find each other, if they are on several machines:
                                     all must see it, and KUMIKI_NET must say which network they share
  -h, -v                             this text; the version

Options of acprun that have no effect there have none here. Standard input goes to the first part, unless it is a terminal. The exit
code is that of the part whose process failed first.
";

const EXAMPLES: &str = "\
Examples:
  macprun job                                  the parts that the file `job` describes
  kumiki macprun -h                            every option, and what the file is

For 4 processes of a program under MPI, compiled with macpcc, and 2 of another, `job` has these lines:
  2
  mpirun
  acprun
  4
  2
  ./ocean -n 100
  ./atmosphere";

/// Start several programs under different launchers as one world.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Options of macprun, and the file.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// Starts the parts and stays until they have ended.
pub(crate) fn run(words: &[OsString]) -> Outcome {
    super::warn_of_unknown_variables();
    let wanted = match parse(words) {
        Ok(wanted) => wanted,
        Err(message) => {
            say(&format!("macprun: {message} (macprun -h lists the options)"));
            return Ok(1);
        }
    };
    if wanted.help {
        return super::print(USAGE);
    }
    if wanted.version {
        return super::print(concat!("macprun (Kumiki ", env!("CARGO_PKG_VERSION"), ")\n"));
    }
    wanted.complain("macprun");
    let job = match read(&wanted) {
        Ok(job) => job,
        Err(message) => {
            say(&format!("macprun: {message}"));
            return Ok(1);
        }
    };
    parts::run(&job).map_err(|error| error.to_string())
}

fn parse(words: &[OsString]) -> Result<Wanted, String> {
    // A lone `-` is no option.
    let (words, input) = match words.split_last() {
        Some((last, before)) if last == "-" => (before, true),
        _ => (words, false),
    };
    let mut wanted = acprun::parse_options(words)?;
    if input {
        wanted.command.push("-".into());
    }
    if wanted.help || wanted.version {
        return Ok(wanted);
    }
    if wanted.is_part || wanted.offset.is_some() {
        return Err(
            "macprun itself tells every part where it begins: leave -multirun and -offsetrank out".into()
        );
    }
    match wanted.command.len() {
        0 => Err("no FILE was given".into()),
        1 => Ok(wanted),
        _ => Err(format!("there is one FILE; what is `{}`?", wanted.command[1].to_string_lossy())),
    }
}

/// The job of a file.
fn read(wanted: &Wanted) -> Result<Parts, String> {
    let name = &wanted.command[0];
    let from_input = name == "-";
    let (shown, text) = match from_input {
        // It may be a socket, which cannot be opened once more by a name.
        true => ("standard input".to_owned(), read_text_from(std::io::stdin().lock(), FILE_BYTES)),
        false => (name.to_string_lossy().into_owned(), read_text(Path::new(name), FILE_BYTES)),
    };
    let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut described = parse_job(&text, &shown, false)?;
    let ranks = described.parts.iter().map(|part| u64::from(part.ranks)).sum::<u64>();
    if let Some(said) = wanted.processes.filter(|&said| u64::from(said) != ranks) {
        say(&format!(
            "macprun: -np {said} has no effect: by {shown} all parts together have {ranks} processes"
        ));
    }
    give_hosts(wanted, &mut described.parts);
    let said = |name| environment::bytes(name).map_err(|error| error.to_string());
    let starter_bytes = wanted
        .starter_bytes
        .or(described.starter_bytes)
        .map_or_else(|| said("KUMIKI_STARTER"), |bytes| Ok(Some(bytes)));
    let timeout = environment::duration("KUMIKI_TIMEOUT").map_err(|error| error.to_string())?;
    for part in &mut described.parts {
        find_launcher(part)?;
    }
    Ok(Parts {
        parts: described.parts,
        starter_bytes: starter_bytes?.unwrap_or(STARTER_BYTES),
        pool_bytes: wanted.pool_bytes().or(described.pool_bytes),
        portfile: wanted.portfile.as_ref().map(Into::into),
        timeout,
        forward_input: !from_input,
    })
}

/// Passes hosts that were said for the whole job on to the parts that are ours and have none. Other launchers have options of their own.
fn give_hosts(wanted: &Wanted, parts: &mut [Part]) {
    for part in parts {
        let Some(at) = own_launcher(&part.launcher) else {
            if !wanted.hosts.is_empty() || wanted.remote_shell.is_some() {
                say(&format!("macprun: hosts are for acprun; those of {} are said in its line", part.title));
            }
            continue;
        };
        let Ok(asked) = acprun::parse_options(&part.launcher[at + 1..]) else { continue };
        if asked.hosts.is_empty() && !wanted.hosts.is_empty() {
            part.launcher.extend(["-host".into(), wanted.hosts.join(",").into()]);
        }
        if let (None, Some(command)) = (asked.remote_shell, &wanted.remote_shell) {
            part.launcher.extend(["-ssh".into(), command.into()]);
        }
    }
}

/// The blocks that a file describes, for `kumiki run --join`: as the parts of macprun; but a launcher may be `none`, and starter memory plays no part.
pub(crate) fn read_blocks(path: &Path) -> Result<Vec<Part>, String> {
    let shown = path.to_string_lossy();
    let text = read_text(path, FILE_BYTES).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut parts = parse_job(&text, &shown, true)?.parts;
    for part in parts.iter_mut().filter(|part| !part.launcher.is_empty()) {
        find_launcher(part)?;
    }
    Ok(parts)
}

/// What a file says.
#[derive(Debug)]
struct Described {
    parts: Vec<Part>,
    /// The most that an acprun line asks for: memory is the same on all ranks.
    starter_bytes: Option<u64>,
    pool_bytes: Option<u64>,
}

/// A line with its number.
type Line<'a> = (usize, &'a str);

fn parse_job(text: &str, name: &str, are_blocks: bool) -> Result<Described, String> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty()).peekable();
    let wrong = |at: usize, why: String| format!("line {at} of {name}: {why}");
    let early = |what: String| format!("{name} ends too early: {what}");

    let (at, first) = lines.next().ok_or_else(|| early("there should be a number of parts".into()))?;
    let count = first.parse().ok().filter(|&count: &usize| (1..=1 << 16).contains(&count));
    let count =
        count.ok_or_else(|| wrong(at, format!("`{first}` should be the number of parts, 1 or more")))?;
    let enough = |what: &str, taken: &[Line]| match taken.len() {
        found if found < count => {
            Err(early(format!("there should be {count} {what}, and there are {found}")))
        }
        _ => Ok(()),
    };
    let launchers: Vec<Line> = lines.by_ref().take(count).collect();
    enough("launchers", &launchers)?;
    let mut counts: Vec<Line> = Vec::new();
    while let Some((at, line)) = lines.next_if(|_| counts.len() < count) {
        // Several numbers may stand on a line.
        counts.extend(line.split_whitespace().map(|number| (at, number)));
    }
    enough("numbers of processes", &counts)?;
    if let Some((at, number)) = counts.get(count) {
        return Err(wrong(*at, format!("`{number}` is a number too many: there are {count} parts")));
    }
    let programs: Vec<Line> = lines.by_ref().take(count).collect();
    enough("programs", &programs)?;
    if let Some((at, line)) = lines.next() {
        return Err(wrong(at, format!("`{line}` is too much: {count} parts were told before")));
    }

    let mut described = Described { parts: Vec::new(), starter_bytes: None, pool_bytes: None };
    for (index, ((launcher, ranks), program)) in launchers.iter().zip(counts).zip(programs).enumerate() {
        let words_of = |(at, line): Line| words(line).map_err(|why| wrong(at, why));
        let title = match are_blocks {
            true => format!("block {index} (line {} of {name}: {})", launcher.0, launcher.1),
            false => format!("part {} (line {} of {name}: {})", index + 1, launcher.0, launcher.1),
        };
        let processes = ranks.1.parse().ok().filter(|&processes: &u32| processes > 0);
        let processes = processes.ok_or_else(|| {
            wrong(ranks.0, format!("`{}` should be the number of processes of part {}", ranks.1, index + 1))
        })?;
        let mut launcher_words = words_of(*launcher)?;
        if are_blocks && launcher_words == ["none"] {
            launcher_words.clear();
        }
        let own = own_launcher(&launcher_words);
        if let Some(at) = own {
            let asked =
                acprun::parse_options(&launcher_words[at + 1..]).map_err(|why| wrong(launcher.0, why))?;
            if let Some(word) = asked.command.first() {
                let why = format!("`{}` looks like a program; those come last", word.to_string_lossy());
                return Err(wrong(launcher.0, why));
            }
            described.starter_bytes = described.starter_bytes.max(asked.starter_bytes);
            described.pool_bytes = described.pool_bytes.max(asked.pool_bytes());
        }
        take_count(&mut launcher_words, processes).map_err(|why| wrong(launcher.0, why))?;
        let program = acprun::found(words_of(program)?);
        described.parts.push(Part {
            title,
            launcher: launcher_words,
            is_ours: own.is_some(),
            ranks: processes,
            program,
        });
    }
    Ok(described)
}

/// The number of processes is said in its own place; a launcher line may repeat it.
fn take_count(launcher: &mut Vec<OsString>, processes: u32) -> Result<(), String> {
    let Some(at) = launcher.iter().position(|word| ["-n", "-np"].iter().any(|name| word == name)) else {
        return Ok(());
    };
    let said = launcher.get(at + 1).and_then(|word| word.to_str()?.parse::<u32>().ok());
    if said != Some(processes) {
        return Err(format!(
            "the launcher says another number of processes than {processes}, which stands behind the launchers; leave it out here"
        ));
    }
    launcher.drain(at..at + 2);
    Ok(())
}

/// Where `acprun` stands, if that is the launcher: first, or behind `env NAME=VALUE`.
fn own_launcher(words: &[OsString]) -> Option<usize> {
    let before = |word: &&OsString| *word == "env" || word.to_string_lossy().contains('=');
    let at = words.iter().take_while(before).count();
    let name = Path::new(words.get(at)?).file_name()?;
    (name == "acprun").then_some(at)
}

/// Finds the launcher: an `acprun` without a folder is the one beside us.
fn find_launcher(part: &mut Part) -> Result<(), String> {
    if let Some(at) = own_launcher(&part.launcher).filter(|&at| part.launcher[at] == "acprun") {
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("acprun"));
        if let Some(path) = beside.filter(|path| path.exists()) {
            part.launcher[at] = path.into();
        }
    }
    let program = &part.launcher[0];
    if find_program(program).is_some() {
        if let Some(why) = family::mismatch(part) {
            say(&format!("macprun: {}: {why}", part.title));
        }
        return Ok(());
    }
    let is_name = !program.as_encoded_bytes().contains(&b'/');
    let hint = if is_name { " in PATH" } else { "" };
    let advice =
        "install its MPI (Debian: openmpi-bin or mpich), load its module, or write where it is in that line";
    let there = family::there();
    let there =
        if there.is_empty() { "none is there".into() } else { format!("there is {}", there.join(", ")) };
    Err(format!(
        "{}: there is no launcher {}{hint}; {advice}. Of the usual ones {there}",
        part.title,
        program.display()
    ))
}

/// The words of a line, as a shell would split it that knows nothing but quotes and backslashes.
fn words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("nothing stands behind the last backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take().map(OsString::from)),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quotation mark {open} is not closed"));
    }
    words.extend(word.map(OsString::from));
    match words.first().is_some_and(|word| !word.is_empty()) {
        true => Ok(words),
        false => Err("there should be a command".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "\
# two parts
2

mpirun -mca btl self   # the first
acprun -smemsize 4K
3
1
./a 'b c' # program
./d
";

    fn said(text: &str) -> String {
        parse_job(text, "F", false).unwrap_err()
    }

    #[test]
    fn a_file_has_launchers_counts_and_programs() {
        let described = parse_job(JOB, "F", false).unwrap();
        let [first, second] = &described.parts[..] else { panic!("two parts") };
        assert_eq!(first.launcher, ["mpirun", "-mca", "btl", "self"]);
        assert_eq!((first.ranks, first.is_ours), (3, false));
        assert_eq!(first.program, ["./a", "b c"]);
        assert_eq!((second.ranks, second.is_ours), (1, true));
        assert_eq!(described.starter_bytes, Some(4096));
        assert!(second.title.contains("part 2 (line 5 of F"), "{}", second.title);
    }

    #[test]
    fn mistakes_are_told_with_their_lines() {
        for (from, to, expected) in [
            ("2\n\n", "two\n", "line 2 of F: `two` should be the number of parts"),
            ("2\n\n", "0\n", "line 2 of F"),
            ("3\n", "3x\n", "line 6 of F: `3x` should be the number of processes of part 1"),
            ("./d\n", "", "there should be 2 programs, and there are 1"),
            ("./d\n", "./d\n./e\n", "line 10 of F: `./e` is too much"),
            ("'b c'", "'b c", "line 8 of F: the quotation mark ' is not closed"),
            ("-smemsize 4K", "-smemsize", "line 5 of F: -smemsize needs a value"),
            ("-smemsize 4K", "-nonsense", "line 5 of F: there is no option -nonsense"),
            ("-smemsize 4K", "./d", "line 5 of F: `./d` looks like a program"),
            ("mpirun", "mpirun -np 2", "line 4 of F: the launcher says another number of processes than 3"),
        ] {
            let error = said(&JOB.replacen(from, to, 1));
            assert!(error.contains(expected), "{to}: {error}");
        }
        assert!(said("# nothing\n").contains("ends too early"));
    }

    #[test]
    fn a_count_that_a_launcher_repeats_is_taken_once() {
        let described = parse_job(&JOB.replace("mpirun", "mpirun -np 3"), "F", false).unwrap();
        assert_eq!(described.parts[0].launcher, ["mpirun", "-mca", "btl", "self"]);
        let one_line = parse_job(&JOB.replace("3\n1\n", "3 1\n"), "F", false).unwrap();
        assert_eq!(one_line.parts[1].ranks, 1);
        assert!(said(&JOB.replace("3\n1\n", "3 1 2\n")).contains("line 6 of F: `2` is a number too many"));
    }

    #[test]
    fn our_launcher_is_known_by_its_name() {
        let own = |line: &str| own_launcher(&words(line).unwrap());
        assert_eq!(own("acprun -x"), Some(0));
        assert_eq!(own("/a/b/acprun"), Some(0));
        assert_eq!(own("env A=1 acprun"), Some(2));
        assert_eq!(own("mpirun -host acprun"), None);
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let split = |line: &str| {
            let words = words(line).unwrap();
            words.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(split(r#"a  'b c' "d \"e" f\ g '' h'i'"#), ["a", "b c", "d \"e", "f g", "", "hi"]);
        assert!(words("a \\").is_err());
    }

    #[test]
    fn hosts_and_counts_of_a_whole_job_were_refused() {
        let words: Vec<OsString> = "-np 4 -host x,y -ssh z f".split(' ').map(OsString::from).collect();
        let wanted = parse(&words).unwrap();
        assert_eq!(wanted.processes, Some(4));
        let mut described = parse_job(JOB, "F", false).unwrap();
        give_hosts(&wanted, &mut described.parts);
        assert_eq!(described.parts[0].launcher, ["mpirun", "-mca", "btl", "self"], "not ours");
        assert_eq!(described.parts[1].launcher, ["acprun", "-smemsize", "4K", "-host", "x,y", "-ssh", "z"]);
        let mut own = parse_job(&JOB.replace("-smemsize 4K", "-host a"), "F", false).unwrap();
        give_hosts(&wanted, &mut own.parts);
        assert_eq!(own.parts[1].launcher, ["acprun", "-host", "a", "-ssh", "z"], "its own hosts stay");
    }

    #[test]
    fn options_of_a_part_are_not_those_of_the_whole() {
        let parsed = |line: &str| parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(parsed("-smemsize 2K -").unwrap().command, ["-"]);
        assert!(parsed("-multirun f").unwrap_err().contains("leave -multirun"));
        assert!(parsed("f g").unwrap_err().contains("what is `g`"));
        assert!(parsed("-smemsize 2K").unwrap_err().contains("no FILE"));
    }
}
