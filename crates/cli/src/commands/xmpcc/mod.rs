//! `kumiki xmpcc`, also under the name `xmpcc`: compiles C programs with the directives of XcalableMP. Each file is preprocessed by the
//! user's compiler, translated (kumiki-xmp), and compiled by the same compiler; everything else on the command line is the compiler's.
//!
//! | file | what |
//! |---|---|
//! | `line.rs` | the command line, and which of its words go where |
//! | `files.rs` | the user's files as the preprocessor reads them, and the folder for what is made on the way |
//! | `texts.rs` | texts of any encoding |
//! | `pragmas.rs` | directives that come through `_Pragma` |
//! | `rules.rs` | what depends on what, for `make` |

mod files;
mod line;
mod pragmas;
mod rules;
mod texts;

use super::cc::{self, Language, Wrapper};
use super::Outcome;
use files::{Files, Folder};
use kumiki_run::report;
use line::{asked, compiling, preprocessing, Asked, Stage};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use texts::{bytes_of, source_of, text_of, without_markers};

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
  kumiki xmpcc --images-from-1 old.c -o old
                                           the first image of a coarray is `x:[1]`, as before XcalableMP 1.3; also `#pragma kumiki images_from_1`

The compiler is that of CC, or cc; with --mpi, and for programs that name MPI, that of MPICC, or mpicc. All other options are the compiler's: -fopenmp, -D, -I, -std= and so on.";

/// Compile a C program with directives of XcalableMP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the translator and the compiler shall be told.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
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
        return rules::rules(wrapper, &prefix, &asked);
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
        let code = rules::write_rules(wrapper, &prefix, &asked, input)?;
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
    if preprocessed.lines().any(pragmas::is_pragma) {
        preprocessed = pragmas::with_expanded_pragmas(wrapper, &line, folder, &preprocessed)?;
    }
    files.find_more(&preprocessed);
    let options =
        kumiki_xmp::Options { omni_local_subscripts: asked.omni_local, images_from_1: asked.images_from_1 };
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

/// What the compiler or the translator has to say, as it is.
fn report_text(text: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text);
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

/// Whether a program uses MPI: then it is compiled as `mpicc` would, and finds `mpi.h` as it does with other compilers.
fn uses_mpi(input: &OsString) -> bool {
    let text = std::fs::read(input).unwrap_or_default();
    let has = |word: &str| text.windows(word.len()).any(|found| found == word.as_bytes());
    ["<mpi.h>", "\"mpi.h\"", "xmp_init_mpi", "xmp_get_mpi_comm", "xmp_nodes_comm"].into_iter().any(has)
}
