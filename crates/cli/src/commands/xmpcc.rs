//! `kumiki xmpcc`, also under the name `xmpcc`: compiles C programs with the directives of XcalableMP. Each file is preprocessed by the
//! user's compiler, translated (kumiki-xmp), and compiled by the same compiler; everything else on the command line is the compiler's.

use super::cc::{self, Language, Wrapper};
use super::Outcome;
use kumiki_run::{report, watch};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  kumiki xmpcc -O2 heat.c -o heat          compile and link; `xmpcc` is the same
  kumiki run -n 4 ./heat                   run it on 4 nodes; `xmprun -n 4 ./heat` is the same
  kumiki xmpcc -c a.c b.c                  only compile
  kumiki xmpcc --save heat.c -o heat       keep the translated text as heat.xmp.c, with the comments
  kumiki xmpcc --show heat.c -o heat       print the command lines, and do nothing
  kumiki xmpcc --omni-local-subscripts cg.c -o cg
                                           subscripts inside a loop that are not its variable are local, as the Omni compiler has it;
                                           `#pragma kumiki omni_local_subscripts` in the file does the same

The compiler is that of CC, or cc; with --mpi, and for programs that name MPI, that of MPICC, or mpicc. All other options are the compiler's: -fopenmp, -D, -I, -std= and so on.";

/// Compile a C program with directives of XcalableMP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the translator and the compiler shall be told.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// Options of compilers whose value is the next word.
const WITH_VALUE: [&str; 35] = [
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-x",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "--sysroot",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xclang",
    "-mllvm",
    "-target",
    "-T",
    "-u",
    "-e",
    "-z",
    "-A",
    "-B",
    "-aux-info",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "--param",
    "-arch",
];

/// What a command line asks for.
#[derive(Default, Debug)]
struct Asked {
    save: bool,
    show: bool,
    mpi: bool,
    omni_local: bool,
    /// `-P`: text without line markers.
    plain: bool,
    /// `-dM`: macros instead of text.
    macros: bool,
    /// What the compiler is told, inputs included; a value stands in a word of its own.
    words: Vec<OsString>,
    /// Where in `words` the C files are.
    inputs: Vec<usize>,
    output: Option<PathBuf>,
    stage: Stage,
    folders: Vec<PathBuf>,
    depends: Depends,
}

/// What is to be written down of what depends on what, for `make`.
#[derive(Default, Debug)]
struct Depends {
    /// `-M` or `-MM`: with the headers of the system, or without.
    kind: Option<&'static str>,
    /// Where to: `-MF`.
    file: Option<OsString>,
    /// What depends on the files has been said: `-MT`, `-MQ`.
    has_target: bool,
    /// Those options as they are, and `-MP`, `-MG`.
    words: Vec<OsString>,
}

/// What comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Program,
    Object,
    Assembly,
    Text,
    /// Only what depends on what.
    Rules,
    Nothing,
}

fn asked(line: &[OsString]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut rest = line.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        match text.as_ref() {
            "--save" | "-save" | "--tmp" => asked.save = true,
            "--show" | "--showme" | "-showme" | "--dry" => asked.show = true,
            "--mpi" => asked.mpi = true,
            // As the Omni compiler has it.
            "-omp" | "--openmp" => asked.words.push("-fopenmp".into()),
            "--omni-local-subscripts" => asked.omni_local = true,
            "-c" => asked.stage = Stage::Object,
            "-S" => asked.stage = Stage::Assembly,
            "-E" => asked.stage = Stage::Text,
            "-fsyntax-only" => {
                asked.stage = Stage::Nothing;
                asked.words.push(word.clone());
            }
            "-M" | "-MM" => {
                asked.stage = Stage::Rules;
                asked.depends.kind = Some(if text == "-M" { "-M" } else { "-MM" });
            }
            "-MD" => asked.depends.kind = Some("-M"),
            "-MMD" => asked.depends.kind = Some("-MM"),
            "-MP" | "-MG" => asked.depends.words.push(word.clone()),
            "-MF" => {
                asked.depends.file = Some(rest.next().ok_or("-MF needs a value: the file to write")?.clone())
            }
            "-MT" | "-MQ" => {
                let target =
                    rest.next().ok_or_else(|| format!("{text} needs a value: what depends on the files"))?;
                asked.depends.words.extend([word.clone(), target.clone()]);
                asked.depends.has_target = true;
            }
            option if option.starts_with("-MF") => asked.depends.file = Some(option[3..].into()),
            option if option.starts_with("-MT") || option.starts_with("-MQ") => {
                asked.depends.words.push(word.clone());
                asked.depends.has_target = true;
            }
            option if option.starts_with("-Wp,-MD,") => {
                (asked.depends.kind, asked.depends.file) = (Some("-M"), Some(option[8..].into()));
            }
            option if option.starts_with("-Wp,-MMD,") => {
                (asked.depends.kind, asked.depends.file) = (Some("-MM"), Some(option[9..].into()));
            }
            // Without the lines' places nothing could be translated; they are taken away at the end.
            "-P" => asked.plain = true,
            "-dM" => {
                asked.macros = true;
                asked.words.push(word.clone());
            }
            "-o" => {
                let name = rest.next().ok_or("-o needs a value: the file to write")?;
                asked.output = Some(name.into());
            }
            option if WITH_VALUE.contains(&option) => {
                asked.words.push(word.clone());
                let Some(value) = rest.next() else { return Err(format!("{option} needs a value")) };
                asked.words.push(value.clone());
                if option == "-I" || option == "-iquote" {
                    asked.folders.push(value.into());
                }
            }
            option if option.starts_with("-o") && option.len() > 2 && !option.starts_with("-openmp") => {
                asked.output = Some(option[2..].into());
            }
            option if option.starts_with("-I") => {
                asked.folders.push(option[2..].into());
                asked.words.push(word.clone());
            }
            _ => {
                if !text.starts_with('-') && text.ends_with(".c") {
                    asked.inputs.push(asked.words.len());
                }
                asked.words.push(word.clone());
            }
        }
    }
    if asked.inputs.len() > 1
        && asked.output.is_some()
        && !matches!(asked.stage, Stage::Program | Stage::Rules | Stage::Nothing)
    {
        return Err(
            "-o names one file, but several are compiled: leave it out, or compile them one by one".into()
        );
    }
    Ok(asked)
}

/// Translates and compiles.
pub(crate) fn run(line: &[OsString]) -> Outcome {
    let mut asked = asked(line)?;
    asked.mpi |= asked.inputs.iter().any(|&input| uses_mpi(&asked.words[input]));
    let wrapper = Wrapper::new(Language::C).with_mpi(asked.mpi);
    let prefix = cc::prefix()?;
    if asked.inputs.is_empty() || asked.stage == Stage::Text && asked.macros {
        let code = pass_on(wrapper, &prefix, &asked)?;
        // Behind what the compiler says of itself, which programs read that build.
        if asked.words.iter().any(|word| word == "--version") {
            super::print(concat!("xmpcc of Kumiki ", env!("CARGO_PKG_VERSION"), ", XcalableMP 1.4\n"))?;
        }
        return Ok(code);
    }
    if asked.stage == Stage::Rules {
        return rules(wrapper, &prefix, &asked);
    }
    let folder = Folder::new()?;
    let mut outputs: Vec<PathBuf> = Vec::new();
    for index in &asked.inputs {
        let input = Path::new(&asked.words[*index]);
        let output = match asked.save || asked.show {
            true => PathBuf::from(with_ending(input, "xmp.c")),
            false => folder.path.join(format!("{}-{}", outputs.len(), with_ending(input, "xmp.c"))),
        };
        if asked.save && outputs.contains(&output) {
            return Err(format!(
                "two files would be saved as {}: translate them one by one",
                output.display()
            ));
        }
        let code = write_rules(wrapper, &prefix, &asked, input)?;
        if code != 0 {
            return Ok(code);
        }
        if !translate(wrapper, &prefix, &asked, &folder, input, &output)? {
            return Ok(1);
        }
        outputs.push(output);
    }
    match asked.stage {
        Stage::Text | Stage::Rules => Ok(0),
        Stage::Program | Stage::Nothing => {
            compile(wrapper, &prefix, &asked, &outputs, asked.output.as_deref())
        }
        Stage::Object | Stage::Assembly => {
            let ending = if asked.stage == Stage::Object { "o" } else { "s" };
            for (index, output) in asked.inputs.iter().zip(&outputs) {
                let object = asked
                    .output
                    .clone()
                    .unwrap_or_else(|| with_ending(Path::new(&asked.words[*index]), ending).into());
                let code = compile(wrapper, &prefix, &asked, std::slice::from_ref(output), Some(&object))?;
                if code != 0 {
                    return Ok(code);
                }
            }
            Ok(0)
        }
    }
}

/// `heat.c` with another ending, in the current folder.
fn with_ending(input: &Path, ending: &str) -> String {
    let stem = input.file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
    format!("{stem}.{ending}")
}

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// A folder that is gone when this is.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Folder, String> {
        let path =
            std::env::temp_dir().join(format!("kumiki-xmpcc-{}-{:x}", std::process::id(), fastrand::u64(..)));
        // What a user writes is not for others to read.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        let folder = Folder { path };
        folder.outlive_nothing()?;
        Ok(folder)
    }

    /// Sees to it that the folder is gone also when a signal ends this process. Compilers that it starts have signals of their own.
    fn outlive_nothing(&self) -> Result<(), String> {
        let path = self.path.clone();
        let signals = watch::Signals::new(&[SIGHUP, SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
        let wait = move || loop {
            let _ = watch::poll(&[(signals.as_fd(), false)], -1);
            if let Some(signal) = signals.next() {
                let _ = std::fs::remove_dir_all(&path);
                std::process::exit(128 + signal);
            }
        };
        std::thread::Builder::new()
            .spawn(wait)
            .map(drop)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Nothing is translated: the compiler is told everything that was asked.
fn pass_on(wrapper: Wrapper, prefix: &Path, asked: &Asked) -> Outcome {
    let mut words: Vec<OsString> = Vec::new();
    let stage = match asked.stage {
        Stage::Object => Some("-c"),
        Stage::Assembly => Some("-S"),
        Stage::Text => Some("-E"),
        Stage::Rules => asked.depends.kind,
        Stage::Program | Stage::Nothing => None,
    };
    words.extend(stage.map(OsString::from));
    if matches!(asked.stage, Stage::Text | Stage::Rules) {
        words.push("-D_XCALABLEMP=201811".into());
    }
    if asked.stage != Stage::Rules {
        words.extend(asked.depends.kind.map(|kind| OsString::from(format!("{kind}D"))));
    }
    words.extend(asked.plain.then(|| "-P".into()));
    words.extend(asked.words.iter().cloned());
    words.extend(asked.depends.words.iter().cloned());
    words.extend(asked.depends.file.iter().flat_map(|file| ["-MF".into(), file.clone()]));
    words.extend(asked.output.iter().flat_map(|output| ["-o".into(), output.into()]));
    let is_source = |word: &OsString| word == "-" || !word.to_string_lossy().starts_with('-');
    if asked.stage == Stage::Program && asked.words.iter().any(is_source) {
        words.push("-lm".into());
    }
    let mut line = wrapper.compiler();
    line.extend(cc::flags(prefix, &words.iter().map(OsString::as_os_str).collect::<Vec<_>>()));
    started(wrapper, asked, &line)
}

/// Which files the inputs depend on, and nothing else.
fn rules(wrapper: Wrapper, prefix: &Path, asked: &Asked) -> Outcome {
    for index in &asked.inputs {
        let input = Path::new(&asked.words[*index]);
        let file = asked.depends.file.as_deref().map(Path::new);
        let line = rules_line(wrapper, prefix, asked, input, asked.output.as_deref().or(file));
        let code = started(wrapper, asked, &line)?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Writes down which files an input depends on, if that was asked for beside the rest; the user's are named, not what was made of them.
fn write_rules(wrapper: Wrapper, prefix: &Path, asked: &Asked, input: &Path) -> Outcome {
    if asked.depends.kind.is_none() {
        return Ok(0);
    }
    // As the compiler of GNU names them.
    let file = match (&asked.depends.file, &asked.output) {
        (Some(file), _) => PathBuf::from(file),
        (None, Some(output)) => output.with_extension("d"),
        (None, None) => with_ending(input, "d").into(),
    };
    let mut line = rules_line(wrapper, prefix, asked, input, Some(&file));
    if !asked.depends.has_target {
        let object = PathBuf::from(with_ending(input, "o"));
        let target = asked.output.clone().filter(|_| asked.stage != Stage::Text).unwrap_or(object);
        line.extend(["-MQ".into(), target.into()]);
    }
    started(wrapper, asked, &line)
}

fn rules_line(
    wrapper: Wrapper,
    prefix: &Path,
    asked: &Asked,
    input: &Path,
    file: Option<&Path>,
) -> Vec<OsString> {
    let mut line = wrapper.compiler();
    line.push(asked.depends.kind.unwrap_or("-M").into());
    line.push("-D_XCALABLEMP=201811".into());
    line.extend(preprocessing(asked));
    line.extend(cc::compile_flags(prefix));
    line.extend(asked.depends.words.iter().cloned());
    line.extend(file.iter().flat_map(|file| ["-MF".into(), file.into()]));
    line.push(input.into());
    line
}

/// Starts the compiler and waits for its end; or only shows the line.
fn started(wrapper: Wrapper, asked: &Asked, line: &[OsString]) -> Outcome {
    if asked.show {
        return super::print(&format!("{}\n", cc::shown(line)));
    }
    let done = wrapper.command(line).and_then(|mut command| command.status());
    let done = done.map_err(|error| wrapper.cannot_start(&line[0], &error))?;
    if done.code().is_none() {
        report(&format!("{} was killed", line[0].to_string_lossy()));
    }
    Ok(done.code().unwrap_or(1))
}

/// Whether the program could be translated; what is wrong with it has been told otherwise.
fn translate(
    wrapper: Wrapper,
    prefix: &Path,
    asked: &Asked,
    folder: &Folder,
    input: &Path,
    output: &Path,
) -> Result<bool, String> {
    let mut line = wrapper.compiler();
    line.push("-E".into());
    if asked.save {
        line.push("-C".into());
    }
    line.extend(["-D_XCALABLEMP=201811", "-iquote"].map(OsString::from));
    line.push(input.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")).into());
    line.extend(preprocessing(asked));
    if asked.mpi {
        // What xmp.h has for MPI, wherever the program includes it.
        line.extend(["-include", "mpi.h"].map(OsString::from));
    }
    line.extend(cc::compile_flags(prefix));
    if asked.show {
        line.push(input.into());
        super::print(&format!("{}\n", cc::shown(&line)))?;
        return Ok(true);
    }
    let mut files = Files {
        folder: &folder.path,
        folders: &asked.folders,
        copies: HashMap::new(),
        originals: HashMap::new(),
    };
    let text = std::fs::read(input).map_err(|error| format!("cannot read {}: {error}", input.display()))?;
    line.push(files.copy(input, &source_of(&text))?.into());
    let done = wrapper.command(&line).and_then(|mut command| command.output());
    let done = done.map_err(|error| wrapper.cannot_start(&line[0], &error))?;
    report_text(&done.stderr);
    if !done.status.success() {
        return Ok(false);
    }
    let mut preprocessed = text_of(&done.stdout);
    if preprocessed.lines().any(is_pragma) {
        preprocessed = with_expanded_pragmas(wrapper, &line, folder, &preprocessed)?;
    }
    files.find_more(&preprocessed);
    let options = kumiki_xmp::Options { omni_local_subscripts: asked.omni_local };
    match kumiki_xmp::translate(&preprocessed, &files.originals, &options) {
        Ok(text) => {
            let text = if asked.plain { without_markers(&text) } else { text };
            if asked.stage == Stage::Text && asked.output.is_none() {
                super::print_bytes(&bytes_of(&text))?;
            }
            let output = match (asked.stage, &asked.output) {
                (Stage::Text, Some(name)) => name,
                _ => output,
            };
            std::fs::write(output, bytes_of(&text))
                .map_err(|error| format!("cannot write {}: {error}", output.display()))?;
            Ok(true)
        }
        Err(problems) => {
            for problem in &problems {
                report_text(&bytes_of(&format!("{problem}\n")));
            }
            Ok(false)
        }
    }
}

/// Whether a line is a directive that came through `_Pragma`, or with a file that was found by the preprocessor alone.
fn is_pragma(line: &str) -> bool {
    let words =
        line.trim_start().strip_prefix('#').map(str::trim_start).and_then(|rest| rest.strip_prefix("pragma"));
    words.is_some_and(|rest| rest.trim_start().starts_with("xmp "))
}

/// A preprocessor leaves such directives as they are: once more for them alone, with the macros that are known where each stands.
fn with_expanded_pragmas(
    wrapper: Wrapper,
    line: &[OsString],
    folder: &Folder,
    preprocessed: &str,
) -> Result<String, String> {
    let output = |line: &[OsString]| {
        let done = wrapper.command(line).and_then(|mut command| command.output());
        let done = done.map_err(|error| wrapper.cannot_start(&line[0], &error))?;
        Ok::<_, String>(done.status.success().then(|| text_of(&done.stdout)))
    };
    let mut with_macros = line.to_vec();
    with_macros.insert(with_macros.len() - 1, "-dD".into());
    let Some(text) = output(&with_macros)? else { return Ok(preprocessed.to_owned()) };
    // Macros and directives, in their order.
    let mut known = String::new();
    for line in text.lines() {
        match line {
            _ if line.starts_with("#define ") || line.starts_with("#undef ") => known.push_str(line),
            _ if is_pragma(line) => {
                let words = line.split_once("xmp ").map_or("", |(_, words)| words);
                known.push_str(&format!("{DIRECTIVE_MARK} {words} {DIRECTIVE_MARK}"));
            }
            _ => continue,
        }
        known.push('\n');
    }
    let file = folder.path.join("pragmas.c");
    std::fs::write(&file, bytes_of(&known))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut words = wrapper.compiler();
    words.extend(["-E", "-P", "-w"].map(OsString::from));
    words.push(file.into());
    let Some(text) = output(&words)? else { return Ok(preprocessed.to_owned()) };
    let expanded: Vec<&str> = text.split(DIRECTIVE_MARK).skip(1).step_by(2).map(str::trim).collect();
    if expanded.len() != preprocessed.lines().filter(|line| is_pragma(line)).count() {
        return Ok(preprocessed.to_owned());
    }
    let mut next = expanded.into_iter();
    let replaced = |line: &str| match is_pragma(line) {
        true => format!("#pragma xmp {}\n", next.next().unwrap_or("").replace('\n', " ")),
        false => line.to_owned(),
    };
    Ok(preprocessed.split_inclusive('\n').map(replaced).collect())
}

/// Stands around a directive whose macros are expanded.
const DIRECTIVE_MARK: &str = "__kxmp_directive__";

/// Without the lines that say where others come from.
fn without_markers(text: &str) -> String {
    let is_marker = |line: &&str| {
        line.strip_prefix("# ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.split_inclusive('\n').filter(|line| !is_marker(line)).collect()
}

/// What the compiler or the translator has to say, as it is.
fn report_text(text: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text);
}

/// The words of the user that matter to the preprocessor.
fn preprocessing(asked: &Asked) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < asked.words.len() {
        let word = &asked.words[at];
        let text = word.to_string_lossy();
        let linking = [
            "-l",
            "-L",
            "-Wl,",
            "-Xlinker",
            "-T",
            "-u",
            "-e",
            "-z",
            "-shared",
            "-static",
            "-pie",
            "-no-pie",
            "-rdynamic",
        ];
        let is_option = text.starts_with('-');
        let length = if WITH_VALUE.contains(&text.as_ref()) { 2 } else { 1 };
        let is_linking = text != "-undef" && linking.iter().any(|option| text.starts_with(option));
        if is_option && !is_linking {
            words.extend(asked.words[at..(at + length).min(asked.words.len())].iter().cloned());
        }
        at += length;
    }
    words
}

/// The words of the user for compiling translated text: what the preprocessor has done is not done twice.
fn compiling(asked: &Asked, translated: &[PathBuf]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut at = 0;
    let one_by_one = matches!(asked.stage, Stage::Object | Stage::Assembly);
    while at < asked.words.len() {
        let word = &asked.words[at];
        let text = word.to_string_lossy();
        let length = if WITH_VALUE.contains(&text.as_ref()) { 2 } else { 1 };
        let done = ["-D", "-U", "-include", "-imacros"].iter().any(|option| text.starts_with(option));
        match asked.inputs.iter().position(|input| *input == at) {
            Some(which) if !one_by_one => words.extend(translated.get(which).map(OsString::from)),
            Some(_) => {}
            None if done => {}
            None => words.extend(asked.words[at..(at + length).min(asked.words.len())].iter().cloned()),
        }
        at += length;
    }
    if one_by_one {
        words.extend(translated.iter().map(OsString::from));
    }
    words
}

fn compile(
    wrapper: Wrapper,
    prefix: &Path,
    asked: &Asked,
    translated: &[PathBuf],
    output: Option<&Path>,
) -> Outcome {
    let mut words = compiling(asked, translated);
    match asked.stage {
        Stage::Object => words.insert(0, "-c".into()),
        Stage::Assembly => words.insert(0, "-S".into()),
        _ => {}
    }
    if let Some(output) = output {
        words.extend(["-o".into(), output.into()]);
    }
    if asked.stage == Stage::Program {
        // Functions of elements are part of the language.
        words.push("-lm".into());
    }
    let mut line = wrapper.compiler();
    line.extend(cc::flags(prefix, &words.iter().map(OsString::as_os_str).collect::<Vec<_>>()));
    started(wrapper, asked, &line)
}

/// Bytes that are no UTF-8, such as those of texts in EUC-JP or Latin-1, are these characters meanwhile.
const FIRST_STRANGER: u32 = 0xf700;

/// The text of a file, whatever its encoding: [`bytes_of`] gives its bytes back.
fn text_of(bytes: &[u8]) -> String {
    let stranger = |byte: &u8| char::from_u32(FIRST_STRANGER + u32::from(*byte)).unwrap_or_default();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for known in chunk.valid().chars() {
            // One that stands for a byte is told byte by byte itself.
            match (FIRST_STRANGER..FIRST_STRANGER + 256).contains(&u32::from(known)) {
                true => text.extend(known.encode_utf8(&mut [0; 4]).as_bytes().iter().map(stranger)),
                false => text.push(known),
            }
        }
        text.extend(chunk.invalid().iter().map(stranger));
    }
    text
}

/// The text of a source, without the mark of its encoding at the beginning.
fn source_of(bytes: &[u8]) -> String {
    text_of(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for known in text.chars() {
        match u32::from(known).checked_sub(FIRST_STRANGER).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(known.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Whether a program uses MPI: then it is compiled as `mpicc` would, and finds `mpi.h` as it does with other compilers.
fn uses_mpi(input: &OsString) -> bool {
    let text = std::fs::read(input).unwrap_or_default();
    let has = |word: &str| text.windows(word.len()).any(|found| found == word.as_bytes());
    ["<mpi.h>", "\"mpi.h\"", "xmp_init_mpi", "xmp_get_mpi_comm", "xmp_nodes_comm"].into_iter().any(has)
}

/// The user's files, as the preprocessor reads them.
struct Files<'a> {
    folder: &'a Path,
    /// Where `-I` and `-iquote` look.
    folders: &'a [PathBuf],
    /// Copies by the files they are of.
    copies: HashMap<PathBuf, String>,
    /// Texts by the names that line markers have.
    originals: HashMap<String, String>,
}

impl Files<'_> {
    /// Writes the copy of a file with its directives marked, and those of the files that it includes.
    fn copy(&mut self, path: &Path, text: &str) -> Result<String, String> {
        let shown = path.to_string_lossy().into_owned();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let copy = self.folder.join(format!("{}-{name}", self.copies.len()));
        let copied = copy.to_string_lossy().into_owned();
        self.copies.insert(known_as(path), copied.clone());
        self.originals.insert(shown.clone(), text.to_owned());
        for name in named_by_lines(text) {
            // Generated text, whose lines are those of another file.
            let read = || source_of(&std::fs::read(&name).unwrap_or_default());
            self.originals.entry(name.clone()).or_insert_with(read);
        }
        let parent = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut failed = None;
        let marked = kumiki_xmp::mark(text, &mut |name, quoted| match self.included(&parent, name, quoted) {
            Ok(found) => found,
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let escaped = shown.replace('\\', "\\\\").replace('"', "\\\"");
        std::fs::write(&copy, bytes_of(&format!("# 1 \"{escaped}\"\n{marked}")))
            .map_err(|error| format!("cannot write {copied}: {error}"))?;
        Ok(copied)
    }

    /// Files that the preprocessor found by itself, through a macro, `-include` or its own folders, are the user's if they have
    /// directives.
    fn find_more(&mut self, preprocessed: &str) {
        let mut current = "";
        for line in preprocessed.lines().filter(|line| line.starts_with('#')) {
            let words = line[1..].trim_start();
            let directive = words.strip_prefix("pragma").map(str::trim_start);
            if directive.is_some_and(|words| words.starts_with("xmp ") || words.starts_with("kumiki ")) {
                if !self.originals.contains_key(current) {
                    let bytes = std::fs::read(current.replace("\\\\", "\\")).unwrap_or_default();
                    self.originals.insert(current.to_owned(), source_of(&bytes));
                }
            } else if words.starts_with(|c: char| c.is_ascii_digit()) {
                current = words.split('"').nth(1).unwrap_or("");
            }
        }
    }

    /// The copy of an included file, if it is one of the user's.
    fn included(&mut self, parent: &Path, name: &str, quoted: bool) -> Result<Option<String>, String> {
        let beside = quoted.then(|| parent.join(name));
        let places = beside.into_iter().chain(self.folders.iter().map(|folder| folder.join(name)));
        let Some(path) = places.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        if let Some(copy) = self.copies.get(&known_as(&path)) {
            return Ok(Some(copy.clone()));
        }
        let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
        self.copy(&path, &source_of(&bytes)).map(Some)
    }
}

/// The files that `#line` names in a text, those left out that a preprocessor has marked as the system's.
fn named_by_lines(text: &str) -> Vec<String> {
    let name_of = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
        let (number, rest) = rest.split_once('"')?;
        let (name, flags) = rest.rsplit_once('"')?;
        let is_number = !number.trim().is_empty() && number.trim().bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !flags.split_whitespace().any(|flag| flag == "3")).then(|| name.replace("\\\\", "\\"))
    };
    text.lines().filter_map(name_of).collect()
}

fn known_as(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_encoding_of_a_text_its_bytes_come_back() {
        let texts: [&[u8]; 4] =
            [b"plain", "\u{7d44}\u{6728}".as_bytes(), b"\xc1\xc8\xcc\xda and \xe9", b"\xef\x9f\xa9\xff"];
        for bytes in texts {
            assert_eq!(bytes_of(&text_of(bytes)), bytes);
        }
        assert!(text_of(b"int \xe9;").starts_with("int "));
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn joined(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_go_where_they_belong() {
        let asked = asked(&words("-O2 -DN=4 -I inc -fopenmp a.c b.o -lm -o prog --save")).unwrap();
        assert!(asked.save);
        assert_eq!(asked.output.as_deref(), Some(Path::new("prog")));
        assert_eq!(joined(&preprocessing(&asked)), "-O2 -DN=4 -I inc -fopenmp");
        assert_eq!(joined(&compiling(&asked, &["a.xmp.c".into()])), "-O2 -I inc -fopenmp a.xmp.c b.o -lm");
        assert_eq!(asked.folders, [PathBuf::from("inc")]);
    }

    #[test]
    fn openmp_is_asked_for_as_omni_does() {
        let asked = asked(&words("-omp --openmp a.c")).unwrap();
        assert_eq!((joined(&preprocessing(&asked)), asked.output), ("-fopenmp -fopenmp".to_owned(), None));
    }

    #[test]
    fn what_depends_on_what_is_asked_apart() {
        let found = asked(&words("-MT x.o -MD -MP -MF .deps/x.Tpo -c -o x.o x.c")).unwrap();
        assert_eq!(joined(&found.depends.words), "-MT x.o -MP");
        assert_eq!(found.depends.file.as_deref(), Some(OsStr::new(".deps/x.Tpo")));
        assert_eq!((found.depends.kind, found.depends.has_target), (Some("-M"), true));
        assert_eq!(joined(&found.words), "x.c");
        let found = asked(&words("-Wp,-MMD,x.d -c x.c")).unwrap();
        assert_eq!((found.depends.kind, found.depends.file), (Some("-MM"), Some("x.d".into())));
        let found = asked(&words("-MM x.c")).unwrap();
        assert_eq!((found.stage, found.depends.kind), (Stage::Rules, Some("-MM")));
        assert!(asked(&words("-MF")).unwrap_err().contains("needs a value"));
    }

    #[test]
    fn files_that_lines_name_are_those_of_the_user() {
        let text = "#line 7 \"main.y\"\n# 9 \"own.c\" 2\n# 1 \"/usr/include/stdio.h\" 1 3 4\n#line 5\n#include \"a.h\"\n# LINE \"b.y\"\n";
        assert_eq!(named_by_lines(text), ["main.y", "own.c"]);
    }

    #[test]
    fn text_without_markers_is_that_of_the_program() {
        assert_eq!(
            without_markers("# 1 \"a.c\"\nint i;\n#pragma omp x\n# 3 \"a.c\" 2\nint j;"),
            "int i;\n#pragma omp x\nint j;"
        );
    }

    #[test]
    fn one_name_for_several_objects_is_refused() {
        assert!(asked(&words("-c a.c b.c -o x.o")).unwrap_err().contains("one by one"));
        assert!(asked(&words("-o")).unwrap_err().contains("needs a value"));
    }
}
