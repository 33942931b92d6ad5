//! Declarations.

use super::Parser;
use crate::ast::{Declaration, Declarator, Derived, Param, Spec, Storage};
use crate::source::{Kind, Problem, Result, Span};

const TYPE_WORDS: [&str; 48] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
    "struct",
    "union",
    "enum",
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "__const",
    "__const__",
    "__volatile__",
    "__volatile",
    "__signed__",
    "__signed",
    "__complex__",
    "__int128",
    "__int128_t",
    "__uint128_t",
    "_Atomic",
    "__typeof__",
    "__typeof",
    "typeof",
    "__auto_type",
    "_Float128",
    "__float128",
    "_Float64",
    "_Float32",
    "_Float64x",
    "_Float32x",
    "__builtin_va_list",
    "_Decimal64",
    "_Decimal32",
    "_Decimal128",
    "_Alignas",
    "__inline__x",
    "_Accum",
];
const STORAGE_WORDS: [&str; 13] = [
    "typedef",
    "extern",
    "static",
    "auto",
    "register",
    "inline",
    "__inline",
    "__inline__",
    "_Noreturn",
    "_Thread_local",
    "__thread",
    "_Static_assert",
    "__attribute__",
];

impl Parser<'_, '_> {
    /// Whether a type begins here: in a cast, a parameter, an argument.
    pub(super) fn starts_type(&self, ahead: usize) -> bool {
        if self.kind(ahead) != Some(Kind::Word) {
            return false;
        }
        let word = self.text(ahead);
        TYPE_WORDS.contains(&word) || self.types.contains(word)
    }

    pub(super) fn starts_declaration(&self) -> bool {
        if self.kind(0) != Some(Kind::Word) {
            return false;
        }
        let (word, second) = (self.text(0), self.text(1));
        if word == "__extension__" {
            return self.kind(1) == Some(Kind::Word);
        }
        if STORAGE_WORDS.contains(&word) || TYPE_WORDS.contains(&word) {
            return true;
        }
        if self.types.contains(word) {
            // A variable may have the name of a type.
            return self.kind(1) == Some(Kind::Word)
                || second == "*"
                || second == "(" && self.text(2) == "*"
                || second == ";";
        }
        // A type that was not seen.
        self.kind(1) == Some(Kind::Word) && !matches!(word, "else" | "return" | "goto" | "sizeof")
    }

    pub(crate) fn declaration(&mut self) -> Result<Declaration> {
        let start = self.offset();
        let spec = self.specifiers()?;
        let mut declarators = Vec::new();
        while !self.is(";") {
            declarators.push(self.init_declarator(&spec)?);
            if !self.take(",") {
                break;
            }
        }
        let end = self.expect(";")?;
        Ok(Declaration { span: Span::new(start, end.end), spec, declarators })
    }

    pub(super) fn init_declarator(&mut self, spec: &Spec) -> Result<Declarator> {
        let mut declarator = self.declarator(false)?;
        let source = self.source;
        if spec.storage == Storage::Typedef {
            self.types.insert(source.slice(declarator.name));
        }
        if self.is(":") && self.text(1) == "[" {
            let start = self.offset();
            self.next();
            let mut sizes = Vec::new();
            while self.take("[") {
                sizes.push(match self.take("*") {
                    true => None,
                    false => Some(self.conditional()?),
                });
                self.expect("]")?;
            }
            declarator.codims = Some((Span::new(start, self.behind()), sizes));
        } else if self.take(":") {
            self.conditional()?;
        }
        self.attributes()?;
        if self.take("=") {
            declarator.init = Some(self.initialiser()?);
        }
        declarator.span.end = self.behind();
        Ok(declarator)
    }

    /// `__attribute__((..))`, `asm("..")`
    fn attributes(&mut self) -> Result<()> {
        while ["__attribute__", "__attribute", "__asm__", "asm", "__asm", "__declspec"]
            .contains(&self.text(0))
        {
            self.next();
            self.skip_brackets()?;
        }
        Ok(())
    }

    pub(super) fn specifiers(&mut self) -> Result<Spec> {
        let mut spec = Spec { span: Span::new(self.offset(), self.offset()), ..Spec::default() };
        let mut has_type = false;
        loop {
            let word = self.text(0);
            if self.kind(0) != Some(Kind::Word) {
                break;
            }
            let span = self.peek().map(|token| token.span).unwrap_or_default();
            match word {
                "typedef" => spec.storage = Storage::Typedef,
                "extern" => spec.storage = Storage::Extern,
                "static" => spec.storage = Storage::Static,
                "__extension__" | "auto" | "register" | "inline" | "__inline" | "__inline__"
                | "_Noreturn" | "_Thread_local" | "__thread" => {}
                "__attribute__" | "__attribute" | "_Alignas" | "__declspec" => {
                    self.next();
                    self.skip_brackets()?;
                    spec.span.end = self.behind();
                    continue;
                }
                "struct" | "union" | "enum" => {
                    self.tagged(&mut spec)?;
                    has_type = true;
                    spec.span.end = self.behind();
                    continue;
                }
                "__typeof__" | "__typeof" | "typeof" | "_Atomic" if self.text(1) == "(" => {
                    self.next();
                    let begin = self.at;
                    self.expect("(")?;
                    if !self.starts_type(0) {
                        spec.typeof_of = Some(std::rc::Rc::new(self.expression()?));
                    }
                    self.at = begin;
                    let inner = self.skip_brackets()?;
                    spec.words.push(span.to(inner));
                    has_type = true;
                    spec.span.end = self.behind();
                    continue;
                }
                _ if TYPE_WORDS.contains(&word) => {
                    let qualifier =
                        word.contains("const") || word.contains("volatile") || word.contains("restrict");
                    has_type |= !qualifier;
                    spec.words.push(span);
                }
                // A name of a type, known or not; without one, a name is what is declared.
                _ if !has_type
                    && (self.types.contains(word)
                        || self.kind(1) == Some(Kind::Word)
                        || self.text(1) == "*") =>
                {
                    has_type = true;
                    spec.words.push(span);
                }
                _ => break,
            }
            self.next();
            spec.span.end = self.behind();
        }
        Ok(spec)
    }

    /// `struct name { .. }`
    fn tagged(&mut self, spec: &mut Spec) -> Result<()> {
        let start = self.offset();
        let keyword = self.next().map(|token| token.span).unwrap_or_default();
        self.attributes()?;
        let name = match self.is_word(0) {
            true => self.next().map(|token| token.span),
            false => None,
        };
        if self.is("{") {
            self.skip_brackets()?;
            self.attributes()?;
            spec.body = Some((Span::new(start, self.behind()), name));
        }
        spec.words.push(keyword);
        spec.words.extend(name);
        Ok(())
    }

    /// `abstract_too`: the name may be missing.
    pub(super) fn declarator(&mut self, abstract_too: bool) -> Result<Declarator> {
        self.deeper(|parser| {
            let start = parser.offset();
            let mut pointers = 0;
            loop {
                if parser.take("*") || parser.take("^") {
                    pointers += 1;
                } else if parser.is_word(0) && is_qualifier(parser.text(0)) {
                    parser.next();
                } else if parser.is("__attribute__") {
                    parser.attributes()?;
                } else {
                    break;
                }
            }
            let mut inner = None;
            let mut name = Span::new(parser.offset(), parser.offset());
            if parser.is("(") && !parser.starts_type(1) && parser.text(1) != ")" {
                parser.next();
                inner = Some(parser.declarator(abstract_too)?);
                parser.expect(")")?;
            } else if parser.is_word(0) {
                name = parser.word("a name")?;
            } else if !abstract_too {
                return Err(parser.unexpected("a name"));
            }
            let mut derived = Vec::new();
            parser.suffixes(&mut derived)?;
            derived.extend((0..pointers).map(|_| Derived::Pointer));
            let span = Span::new(start, parser.behind());
            Ok(match inner {
                Some(mut inner) => {
                    inner.derived.extend(derived);
                    Declarator { span, ..inner }
                }
                None => Declarator { span, name, derived, codims: None, init: None },
            })
        })
    }

    fn suffixes(&mut self, derived: &mut Vec<Derived>) -> Result<()> {
        loop {
            if self.take("[") {
                while ["static", "const", "restrict", "volatile", "__restrict"].contains(&self.text(0)) {
                    self.next();
                }
                let size = match self.is("]") || (self.is("*") && self.text(1) == "]") {
                    true => {
                        self.take("*");
                        None
                    }
                    false => Some(self.assignment()?),
                };
                self.expect("]")?;
                derived.push(Derived::Array(size));
            } else if self.is("(") {
                derived.push(Derived::Function(self.parameters()?));
            } else {
                break;
            }
            self.attributes()?;
        }
        Ok(())
    }

    fn parameters(&mut self) -> Result<Vec<Param>> {
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.is(")") {
            if self.take("...") {
                break;
            }
            // In the way of old C there are only names.
            let bare = self.is_word(0) && !self.starts_type(0) && matches!(self.text(1), "," | ")");
            let spec = match bare {
                true => Spec::default(),
                false => self.specifiers()?,
            };
            let declarator = match self.is(",") || self.is(")") {
                true => None,
                false => Some(self.declarator(true)?),
            };
            if self.is(":") && self.text(1) == "[" {
                return Err(Problem::new(
                    self.offset(),
                    "a parameter cannot be a coarray: coarrays are at file scope or `static`; a function can use them by their name, and be given the memory of this image, `int x[4]`",
                ));
            }
            self.attributes()?;
            params.push(Param { spec, declarator });
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(params)
    }
}

fn is_qualifier(word: &str) -> bool {
    [
        "const",
        "volatile",
        "restrict",
        "__restrict",
        "__restrict__",
        "__const",
        "__volatile__",
        "_Nullable",
        "_Nonnull",
        "_Atomic",
    ]
    .contains(&word)
}
