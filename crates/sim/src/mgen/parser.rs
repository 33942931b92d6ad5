//! From tokens to the syntax tree: statements and blocks. Expressions are in `expression.rs`.

use super::lexer::{tokens, Kind, Token};
use super::tree::*;
use super::verbs::{self, Amount, Verb, VERBS};
use crate::source::{Mistake, Source, Span};

/// How deep blocks and expressions may nest.
const DEEPEST: usize = 64;

/// Words that begin a statement and name nothing.
pub(super) const KEYWORDS: &[&str] = &[
    "param", "let", "proc", "func", "for", "in", "step", "while", "repeat", "if", "else", "break", "next",
    "return", "assert", "and", "or", "not", "rank", "ranks", "all", "any",
];

/// Reads a program.
pub fn parse(source: &Source) -> Result<Block, Mistake> {
    let mut parser = Parser { source, tokens: tokens(source)?, at: 0, depth: 0 };
    parser.block(true)
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a Source,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

pub(super) type Parsed<T> = Result<T, Mistake>;

impl Parser<'_> {
    // ---- tokens ----

    pub(super) fn peek(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn peek_behind(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    pub(super) fn text(&self, token: Token) -> &str {
        self.source.slice(token.at)
    }

    pub(super) fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek().kind, Kind::Mark(found) if found == mark)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.peek().kind == Kind::Word && self.text(self.peek()) == word
    }

    fn word_here(&self) -> Option<&str> {
        (self.peek().kind == Kind::Word).then(|| self.text(self.peek()))
    }

    /// What stands here, for a message.
    pub(super) fn found(&self) -> String {
        match self.peek().kind {
            Kind::End => "the end of the line".into(),
            Kind::File => "the end of the file".into(),
            Kind::Comment => "a comment".into(),
            _ => format!("`{}`", self.text(self.peek())),
        }
    }

    pub(super) fn wrong<T>(&self, expected: &str) -> Parsed<T> {
        Err(self.source.mistake(self.peek().at, format!("expected {expected}, found {}", self.found())))
    }

    pub(super) fn expect_mark(&mut self, mark: &str, why: &str) -> Parsed<Token> {
        if self.is_mark(mark) {
            return Ok(self.take());
        }
        self.wrong(&format!("`{mark}` {why}"))
    }

    fn name(&mut self, what: &str) -> Parsed<Name> {
        let token = self.peek();
        if token.kind != Kind::Word {
            return self.wrong(what);
        }
        let text = self.text(token).to_string();
        if KEYWORDS.contains(&&*text) || verbs::find(&text).is_some() {
            let message = format!("expected {what}, but `{text}` is a word of the language");
            return Err(self.source.mistake(token.at, message));
        }
        self.at += 1;
        Ok(Name { at: token.at, text })
    }

    /// One level deeper, unless that is too deep.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            let message = format!("this is nested more than {DEEPEST} deep");
            return Err(self.source.mistake(self.peek().at, message));
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    // ---- blocks ----

    /// Statements up to the end of the file, or up to `}` which is taken.
    fn block(&mut self, whole_file: bool) -> Parsed<Block> {
        let mut lines = Vec::new();
        loop {
            let mut ends = 0;
            while self.peek().kind == Kind::End {
                let token = self.take();
                ends += (self.text(token) == "\n") as usize;
            }
            // Behind a statement or `{` the first line end is its own, so a blank line makes two.
            let blank_before = ends > 1 && !lines.is_empty();
            match self.peek().kind {
                Kind::File if whole_file => return Ok(Block { lines }),
                Kind::File => return self.wrong("`}` that ends this block"),
                Kind::Mark("}") if !whole_file => {
                    self.at += 1;
                    return Ok(Block { lines });
                }
                Kind::Mark("}") => return self.wrong("a statement: no block is open here"),
                Kind::Comment => {
                    let comment = Some(self.comment());
                    lines.push(Line { blank_before, statement: None, comment });
                }
                _ => {
                    let statement = Some(self.deeper(Self::statement)?);
                    let comment = (self.peek().kind == Kind::Comment).then(|| self.comment());
                    if !matches!(self.peek().kind, Kind::End | Kind::File | Kind::Mark("}")) {
                        return self.wrong("the end of the statement");
                    }
                    lines.push(Line { blank_before, statement, comment });
                }
            }
        }
    }

    fn comment(&mut self) -> String {
        let token = self.take();
        self.text(token).trim_end().to_string()
    }

    fn braces(&mut self, what: &str) -> Parsed<Block> {
        self.expect_mark("{", &format!("and the {what}"))?;
        self.block(false)
    }

    // ---- statements ----

    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.peek().at;
        let kind = self.statement_kind()?;
        let end = self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].at;
        Ok(Statement { at: start.to(end), kind })
    }

    fn statement_kind(&mut self) -> Parsed<StatementKind> {
        let Some(word) = self.word_here().map(str::to_string) else { return self.wrong("a statement") };
        if let Some(verb) = verbs::find(&word) {
            return Ok(StatementKind::Operation(self.operation(verb)?));
        }
        match &*word {
            "param" => self.param(),
            "let" => self.let_statement(),
            "proc" => self.procedure(),
            "func" => self.function(),
            "for" => self.for_statement(),
            "while" => {
                self.at += 1;
                Ok(StatementKind::While(self.expression()?, self.braces("body of the loop")?))
            }
            "repeat" => {
                self.at += 1;
                Ok(StatementKind::Repeat(self.expression()?, self.braces("body of the loop")?))
            }
            "if" => self.if_statement(),
            "else" => self.wrong("a statement: `else` must follow the `}` of its `if`"),
            "break" => self.single(StatementKind::Break),
            "next" => self.single(StatementKind::Next),
            "return" => self.single(StatementKind::Return),
            "assert" => self.assert_statement(),
            _ => self.named_statement(),
        }
    }

    fn single(&mut self, kind: StatementKind) -> Parsed<StatementKind> {
        self.at += 1;
        Ok(kind)
    }

    fn param(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let name = self.name("the name of the parameter")?;
        self.expect_mark("=", "and the parameter's value")?;
        Ok(StatementKind::Param(name, self.expression()?))
    }

    fn let_statement(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let name = self.name("the name of the variable")?;
        self.expect_mark("=", "and the variable's value")?;
        Ok(StatementKind::Let(name, self.right()?))
    }

    /// A value, or an operation with a handle.
    fn right(&mut self) -> Parsed<Right> {
        let Some(verb) = self.word_here().and_then(verbs::find) else {
            return Ok(Right::Expression(self.expression()?));
        };
        if !verb.handle {
            let giving = VERBS.iter().filter(|verb| verb.handle).map(|verb| verb.name).collect::<Vec<_>>();
            let message = format!("`{}` gives no handle; these do: {}", verb.name, giving.join(", "));
            return Err(self.source.mistake(self.peek().at, message));
        }
        Ok(Right::Operation(self.operation(verb)?))
    }

    fn parameters(&mut self) -> Parsed<Vec<Name>> {
        self.expect_mark("(", "and the names of the parameters")?;
        let mut names = Vec::new();
        while !self.is_mark(")") {
            names.push(self.name("the name of a parameter or `)`")?);
            if !self.is_mark(")") {
                self.expect_mark(",", "or `)`")?;
            }
        }
        self.at += 1;
        Ok(names)
    }

    fn procedure(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let name = self.name("the name of the procedure")?;
        Ok(StatementKind::Procedure(name, self.parameters()?, self.braces("body of the procedure")?))
    }

    fn function(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let (name, parameters) = (self.name("the name of the function")?, self.parameters()?);
        self.expect_mark("=", "and the function's value")?;
        Ok(StatementKind::Function(name, parameters, self.expression()?))
    }

    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let name = self.name("the variable of the loop")?;
        if !self.is_word("in") {
            return self.wrong("`in` and the range of the loop, such as `in 0..ranks`");
        }
        self.at += 1;
        let from = self.expression()?;
        self.expect_mark("..", "and the end of the range")?;
        let to = self.expression()?;
        let step = if self.is_word("step") {
            self.at += 1;
            Some(self.expression()?)
        } else {
            None
        };
        Ok(StatementKind::For { name, from, to, step, body: self.braces("body of the loop")? })
    }

    fn if_statement(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let mut arms = vec![(self.expression()?, self.braces("branch")?)];
        let mut otherwise = None;
        while otherwise.is_none() && self.else_follows() {
            if self.is_word("if") {
                self.at += 1;
                arms.push((self.expression()?, self.braces("branch")?));
            } else {
                otherwise = Some(self.braces("branch")?);
            }
        }
        Ok(StatementKind::If(arms, otherwise))
    }

    /// Takes `else`, also on the next line.
    fn else_follows(&mut self) -> bool {
        let ends = self.tokens[self.at..].iter().take_while(|token| token.kind == Kind::End).count();
        let next = self.peek_behind(ends);
        let is_else = next.kind == Kind::Word && self.text(next) == "else";
        if is_else {
            self.at += ends + 1;
        }
        is_else
    }

    fn assert_statement(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let condition = self.expression()?;
        if !self.is_mark(",") {
            return Ok(StatementKind::Assert(condition, None));
        }
        self.at += 1;
        if self.peek().kind != Kind::Text {
            return self.wrong("what to say, in double quotes");
        }
        let token = self.take();
        let text = self.text(token).trim_matches('"').to_string();
        Ok(StatementKind::Assert(condition, Some(text)))
    }

    /// An assignment or a call.
    fn named_statement(&mut self) -> Parsed<StatementKind> {
        let before = self.peek();
        let name = self.name("a statement")?;
        match self.peek().kind {
            Kind::Mark("=") => {
                self.at += 1;
                Ok(StatementKind::Assign(name, self.right()?))
            }
            Kind::Mark("(") => {
                let (arguments, _) = self.arguments()?;
                Ok(StatementKind::Call(name, arguments))
            }
            _ => {
                let known = VERBS.iter().map(|verb| verb.name).chain(KEYWORDS.iter().copied());
                let message = format!("`{}` begins no statement", name.text);
                Err(self.source.mistake(before.at, message).with_nearest(&name.text, known))
            }
        }
    }

    // ---- operations ----

    fn operation(&mut self, verb: &'static Verb) -> Parsed<Operation> {
        let at = self.take().at;
        let amount = self.amount(verb)?;
        let mut clauses: Vec<Clause> = Vec::new();
        while let Some(word) = self.word_here() {
            let Some(key) = verb.clauses().find(|key| *key == word) else {
                let known: Vec<&str> = verb.clauses().collect();
                let expected = match known.len() {
                    0 => "nothing more".to_string(),
                    _ => format!("one of {}", known.join(", ")),
                };
                let message = format!("`{}` takes no `{word}`; expected {expected}", verb.name);
                return Err(self.source.mistake(self.peek().at, message).with_nearest(word, known));
            };
            if clauses.iter().any(|clause| clause.key == key) {
                return Err(self.source.mistake(self.peek().at, format!("`{key}` is here twice")));
            }
            let at = self.take().at;
            clauses.push(Clause { at, key, value: self.clause_value(verb, key)? });
        }
        if let Some(missing) = verb.must.iter().find(|must| clauses.iter().all(|clause| clause.key != **must))
        {
            return self.wrong(&format!("`{missing}` and a rank: `{}` needs it", verb.name));
        }
        Ok(Operation { at, verb, amount, clauses })
    }

    fn amount(&mut self, verb: &Verb) -> Parsed<Option<Expression>> {
        match verb.amount {
            Amount::Nothing => return Ok(None),
            Amount::Handle if self.is_word("all") => {
                self.at += 1;
                return Ok(None);
            }
            _ => {}
        }
        let missing = match self.peek().kind {
            Kind::End | Kind::File | Kind::Comment | Kind::Mark("}") => true,
            Kind::Word => verb.clauses().any(|key| self.is_word(key)),
            _ => false,
        };
        if missing {
            return self.wrong(&format!("{} after `{}`", verb.amount.wanted(), verb.name));
        }
        self.expression().map(Some)
    }

    fn clause_value(&mut self, verb: &Verb, key: &str) -> Parsed<ClauseValue> {
        let words = verbs::words(verb, key);
        if let Some(word) = words.iter().find(|word| self.takes_words(word)) {
            return Ok(ClauseValue::Word(word.to_string()));
        }
        if verbs::only_words(key) {
            let given = self.word_here().unwrap_or("").to_string();
            let message = format!(
                "expected an algorithm of `{}` ({}), found {}",
                verb.name,
                words.join(", "),
                self.found()
            );
            let mistake = self.source.mistake(self.peek().at, message);
            return Err(if given.is_empty() {
                mistake
            } else {
                mistake.with_nearest(&given, words.iter().copied())
            });
        }
        self.expression().map(ClauseValue::Expression)
    }

    /// Takes a word that may have hyphens, if it stands here.
    fn takes_words(&mut self, wanted: &str) -> bool {
        let mut at = self.at;
        for (i, part) in wanted.split('-').enumerate() {
            if i > 0 {
                if self.tokens[at].kind != Kind::Mark("-") {
                    return false;
                }
                at += 1;
            }
            let token = self.tokens[at.min(self.tokens.len() - 1)];
            if token.kind != Kind::Word || self.text(token) != part {
                return false;
            }
            at += 1;
        }
        let whole = Span::new(self.tokens[self.at].at.start as usize, self.tokens[at - 1].at.end as usize);
        if self.source.slice(whole) != wanted {
            return false;
        }
        self.at = at;
        true
    }
}
