//! What a command line of `xmpcc` asks for, and which of its words go where.

use std::ffi::OsString;
use std::path::PathBuf;

/// Options of compilers whose value is the next word.
pub(super) const WITH_VALUE: [&str; 35] = [
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
pub(super) struct Asked {
    pub(super) save: bool,
    pub(super) show: bool,
    pub(super) mpi: bool,
    pub(super) omni_local: bool,
    /// The first image is 1.
    pub(super) images_from_1: bool,
    /// `-P`: text without line markers.
    pub(super) plain: bool,
    /// `-dM`: macros instead of text.
    pub(super) macros: bool,
    /// What the compiler is told, inputs included; a value stands in a word of its own.
    pub(super) words: Vec<OsString>,
    /// Where in `words` the C files are.
    pub(super) inputs: Vec<usize>,
    pub(super) output: Option<PathBuf>,
    pub(super) stage: Stage,
    pub(super) folders: Vec<PathBuf>,
    pub(super) depends: Depends,
}

/// What is to be written down of what depends on what, for `make`.
#[derive(Default, Debug)]
pub(super) struct Depends {
    /// `-M` or `-MM`: with the headers of the system, or without.
    pub(super) kind: Option<&'static str>,
    /// Where to: `-MF`.
    pub(super) file: Option<OsString>,
    /// What depends on the files has been said: `-MT`, `-MQ`.
    pub(super) has_target: bool,
    /// Those options as they are, and `-MP`, `-MG`.
    pub(super) words: Vec<OsString>,
}

impl Depends {
    /// Takes an option with its value, if it is one of these.
    fn take<'w>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'w OsString>,
    ) -> Result<bool, String> {
        let needs = || format!("{word} needs a value");
        match word {
            "-M" | "-MD" => self.kind = Some("-M"),
            "-MM" | "-MMD" => self.kind = Some("-MM"),
            "-MP" | "-MG" => self.words.push(word.into()),
            "-MF" => self.file = Some(rest.next().ok_or_else(needs)?.clone()),
            "-MT" | "-MQ" => {
                self.words.extend([word.into(), rest.next().ok_or_else(needs)?.clone()]);
                self.has_target = true;
            }
            _ if word.starts_with("-MF") => self.file = Some(word[3..].into()),
            _ if word.starts_with("-MT") || word.starts_with("-MQ") => {
                self.words.push(word.into());
                self.has_target = true;
            }
            _ => {
                let whole = word.strip_prefix("-Wp,-MD,").map(|file| ("-M", file));
                let found = whole.or(word.strip_prefix("-Wp,-MMD,").map(|file| ("-MM", file)));
                let Some((kind, file)) = found else { return Ok(false) };
                (self.kind, self.file) = (Some(kind), Some(file.into()));
            }
        }
        Ok(true)
    }
}

/// What comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Program,
    Object,
    Assembly,
    Text,
    /// Only what depends on what.
    Rules,
    Nothing,
}

pub(super) fn asked(line: &[OsString]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut only_rules = false;
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
            "--images-from-1" => asked.images_from_1 = true,
            "-c" => asked.stage = Stage::Object,
            "-S" => asked.stage = Stage::Assembly,
            "-E" => asked.stage = Stage::Text,
            "-fsyntax-only" => {
                asked.stage = Stage::Nothing;
                asked.words.push(word.clone());
            }
            _ if asked.depends.take(&text, &mut rest)? => {
                only_rules |= matches!(text.as_ref(), "-M" | "-MM");
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
    // Whatever else is asked for, before or behind it.
    if only_rules {
        asked.stage = Stage::Rules;
    }
    check_output(&asked)?;
    Ok(asked)
}

/// One file cannot have what is made of several, but a program, or rules.
fn check_output(asked: &Asked) -> Result<(), String> {
    let name = match (asked.stage, &asked.output) {
        (Stage::Program | Stage::Nothing | Stage::Rules, _) => None,
        (_, output) => output.as_ref().map(|_| "-o"),
    };
    match name.filter(|_| asked.inputs.len() > 1) {
        Some(name) => Err(format!(
            "{name} names one file, but several are compiled: leave it out, or compile them one by one"
        )),
        None => Ok(()),
    }
}

/// The words of the user that matter to the preprocessor.
pub(super) fn preprocessing(asked: &Asked) -> Vec<OsString> {
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
pub(super) fn compiling(asked: &Asked, translated: &[PathBuf]) -> Vec<OsString> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::Path;

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
        for line in ["-M -c x.c", "-MM -S x.c", "-c -M x.c", "-M -fsyntax-only x.c", "-MM -E x.c"] {
            assert_eq!(asked(&words(line)).unwrap().stage, Stage::Rules, "{line}");
        }
    }

    #[test]
    fn one_name_for_several_objects_is_refused() {
        assert!(asked(&words("-c a.c b.c -o x.o")).unwrap_err().contains("one by one"));
        for line in ["-MMD a.c b.c -o x", "-MM a.c b.c", "-MM a.c b.c -o x.d", "-MM a.c -o x.d -MF y.d"] {
            assert!(asked(&words(line)).is_ok(), "{line}");
        }
        assert!(asked(&words("-o")).unwrap_err().contains("needs a value"));
    }
}
