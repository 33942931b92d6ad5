//! Statements. Pointers to distributed arrays are computed once for a loop.

use super::expressions::{bare, children};
use super::vectors::{settle, MARK};
use super::{Hoist, Translator};
use crate::ast::{Declaration, Expr, ExprKind, For, ForFirst, Jump, Stmt, StmtKind, Sub};
use crate::directive::Directive;
use crate::names::Array;
use crate::source::{Problem, Result, Span};
use std::collections::HashMap;
use std::rc::Rc;

impl Translator<'_, '_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<String> {
        match &stmt.kind {
            StmtKind::Compound(items) => self.compound(stmt, items),
            StmtKind::Expr(Some(expr)) => self.expression_statement(stmt, expr),
            StmtKind::Decl(declaration) => {
                let text = self.declaration(declaration)?;
                Ok(text)
            }
            StmtKind::For(_) | StmtKind::While(..) | StmtKind::Do(..) if self.can_hoist(stmt) => {
                let may_move = self.calls_unknown(stmt);
                self.hoisted(may_move, |translator| translator.inner(stmt))
            }
            StmtKind::Directive(index) => {
                let text = self.standalone(*index, stmt.span.start)?;
                Ok(self.in_place(stmt.span, text))
            }
            StmtKind::Directed(index, inner) => self.directed(stmt, *index, inner),
            StmtKind::Jump(Jump::Break) => Ok(match self.noted_breaks.remove(&stmt.span.start) {
                Some(noted) => format!("{{ {noted}; {} }}", self.verbatim(stmt.span)),
                None => self.verbatim(stmt.span),
            }),
            _ => self.inner(stmt),
        }
    }

    /// The statement with what is in it translated.
    fn inner(&mut self, stmt: &Stmt) -> Result<String> {
        let opens = matches!(stmt.kind, StmtKind::For(_));
        if let StmtKind::For(one) = &stmt.kind {
            self.open_for(one);
        }
        let parts = self.parts_of(stmt);
        if opens {
            self.close();
        }
        Ok(self.splice(stmt.span, &parts?))
    }

    /// The scope of what a `for` declares.
    pub(super) fn open_for(&mut self, one: &For) {
        self.open(&[]);
        if let ForFirst::Decl(declaration) = &one.first {
            self.declare(declaration, crate::names::Owner::Block);
        }
    }

    fn parts_of(&mut self, stmt: &Stmt) -> Result<Vec<(Span, String)>> {
        let mut parts = Vec::new();
        match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => {
                parts.push((cond.span, self.expr(cond)?));
                parts.push((then.span, self.branch(then)?));
                if let Some(otherwise) = otherwise {
                    parts.push((otherwise.span, self.branch(otherwise)?));
                }
            }
            StmtKind::For(one) if self.rewrites.contains_key(&one.head.start) => {
                let Some(rewrite) = self.rewrites.remove(&one.head.start) else { return Ok(parts) };
                let start = Span::new(stmt.span.start, stmt.span.start);
                let mark = self.mark(stmt, one);
                parts.push((start, rewrite.before + mark));
                let head = self.in_place(one.head, rewrite.head);
                parts.push((one.head, head));
                let outer = self.turns.len();
                self.turns.extend(rewrite.turn);
                let body = self.branch(&one.body);
                self.turns.truncate(outer);
                parts.push((one.body.span, body? + &rewrite.after));
            }
            StmtKind::For(one) => {
                let mark = self.mark(stmt, one);
                parts.push((Span::new(stmt.span.start, stmt.span.start), mark.to_owned()));
                match &one.first {
                    ForFirst::None => {}
                    ForFirst::Expr(first) => parts.push((first.span, self.expr(first)?)),
                    ForFirst::Decl(declaration) => {
                        parts.push((declaration.span, self.declaration(declaration)?))
                    }
                }
                for expr in [&one.cond, &one.step].into_iter().flatten() {
                    parts.push((expr.span, self.expr(expr)?));
                }
                parts.push((one.body.span, self.branch(&one.body)?));
            }
            StmtKind::While(cond, body) | StmtKind::Switch(cond, body) => {
                parts.push((cond.span, self.expr(cond)?));
                parts.push((body.span, self.branch(body)?));
            }
            StmtKind::Do(body, cond) => {
                parts.push((body.span, self.branch(body)?));
                parts.push((cond.span, self.expr(cond)?));
            }
            StmtKind::Return(Some(value)) => parts.push((value.span, self.expr(value)?)),
            // What `void main` returns would be anything.
            StmtKind::Return(None) if self.function == "main" => {
                parts.push((stmt.span, "return 0;".to_owned()));
            }
            StmtKind::Label(inner) => parts.push((inner.span, self.branch(inner)?)),
            _ => {}
        }
        Ok(parts)
    }

    /// The mark for the compiler that iterations do not depend on each other, if arrays lie apart.
    fn mark(&mut self, stmt: &Stmt, one: &For) -> &'static str {
        let before = self.source.foreign.iter().rev().find(|pragma| pragma.end <= stmt.span.start);
        let follows = before.is_some_and(|pragma| {
            let between = self.source.text.get(pragma.end..stmt.span.start).unwrap_or("");
            // A pragma about several loops wants nothing between them.
            let is_about_nest =
                ["collapse", "tile", "ordered"].iter().any(|word| self.slice(*pragma).contains(word));
            !between.contains([';', '{', '}']) || (is_about_nest && !between.contains('}'))
        });
        // Between the loops that a pragma of others takes together nothing may stand.
        let joins =
            |pragma: &&Span| ["collapse", "tile", "ordered"].iter().any(|w| self.slice(**pragma).contains(w));
        let joined = self.joined.contains(&one.head.start) || (follows && before.as_ref().is_some_and(joins));
        if joined {
            let mut body = &one.body;
            while let StmtKind::Compound(items) = &body.kind {
                let [only] = &items[..] else { break };
                body = only;
            }
            if let StmtKind::For(inner) = &body.kind {
                self.joined.insert(inner.head.start);
            }
        }
        let may = self.hoist.is_some()
            && !follows
            && !joined
            // What has a step beside the variable is another one in each iteration.
            && one.step.as_ref().is_none_or(|step| super::firsts::parts(step).len() == 1)
            && self.variable_of(one).is_some_and(|variable| self.is_independent(one, &variable));
        if may {
            MARK
        } else {
            ""
        }
    }

    /// A statement that hangs on another: a directive may have become several.
    pub(super) fn branch(&mut self, stmt: &Stmt) -> Result<String> {
        let text = self.stmt(stmt)?;
        Ok(match stmt.kind {
            StmtKind::Directive(_) => format!("{{ {text} }}"),
            _ => text,
        })
    }

    fn compound(&mut self, stmt: &Stmt, items: &[Stmt]) -> Result<String> {
        self.open(items);
        self.settle_pragmas(stmt.span);
        let parts = self.item_parts(items);
        self.close();
        Ok(self.splice(stmt.span, &parts))
    }

    /// The statements of a block; what is wrong with one is told, and the next is looked at.
    pub(super) fn item_parts(&mut self, items: &[Stmt]) -> Vec<(Span, String)> {
        let mut parts = Vec::new();
        for item in items {
            match self.stmt(item) {
                Ok(text) => parts.push((self.with_pragmas(item), text)),
                Err(problem) => self.problem(problem),
            }
        }
        parts
    }

    /// A loop directive may stand behind a pragma of others that is about the same `for`: it is replaced together with that.
    pub(super) fn with_pragmas(&self, stmt: &Stmt) -> Span {
        let StmtKind::Directed(index, _) = &stmt.kind else { return stmt.span };
        if !matches!(self.directives.get(*index), Some(Ok(directive)) if matches!(**directive, Directive::Loop(_)))
        {
            return stmt.span;
        }
        let mut start = stmt.span.start;
        for pragma in self.source.foreign.iter().rev() {
            let between = self.source.text.get(pragma.end..start).unwrap_or("x");
            if pragma.end > start {
                continue;
            }
            let words = self.slice(*pragma);
            let is_about_loop = [" for", "loop", "simd", "parallel", "kernels", "unroll", "ivdep"]
                .iter()
                .any(|w| words.contains(w));
            if !is_blank(between) || !is_about_loop {
                break;
            }
            start = pragma.start;
        }
        Span::new(start, stmt.span.end)
    }

    fn expression_statement(&mut self, stmt: &Stmt, expr: &Expr) -> Result<String> {
        if let ExprKind::Assign(sign, left, right) = &bare(expr).kind {
            if has_section(left) || has_section(right) || self.is_whole_image(left, right) {
                let text = self.array_assignment(stmt.span.start, *sign, left, right)?;
                return Ok(self.in_place(stmt.span, text));
            }
        }
        let text = self.expr(expr)?;
        Ok(self.splice(stmt.span, &[(expr.span, text)]))
    }

    fn directed(&mut self, stmt: &Stmt, index: usize, inner: &Stmt) -> Result<String> {
        let Some(directive) = self.directive(index) else { return self.stmt(inner) };
        let at = stmt.span.start;
        let directive_span = self.source.directives[index].span;
        match &*directive {
            Directive::Loop(one) => {
                let outer = self.with_pragmas(stmt);
                let kept = Span::new(outer.start, at);
                let may_hoist =
                    self.hoist.is_none() && !self.has_label(inner) && !self.calls(inner, "xmp_malloc");
                match may_hoist {
                    true => self
                        .hoisted(false, |translator| translator.loop_text(one, directive_span, kept, inner)),
                    false => self.loop_text(one, directive_span, kept, inner),
                }
            }
            Directive::Task { on, nocomm } => {
                // Who leaves in another way has ended the task as well: C sees to that.
                self.refuse_jumps(inner, "task", &["return", "break", "continue"])?;
                let reference = self.reference(on)?;
                let name = format!("kx_k{}", self.fresh());
                let between = self.verbatim(Span::new(directive_span.end, inner.span.start));
                let text = self.branch(inner)?;
                Ok(format!(
                    "{{ kxmp_task {name} __attribute__((cleanup(kxmp_task_end))); if (kxmp_task_begin(&{name}, {}, {reference}, {})){between}{text} }}",
                    self.at(at),
                    i32::from(*nocomm)
                ))
            }
            Directive::Tasks => {
                let text = self.stmt(inner)?;
                Ok(self.splice(stmt.span, &[(directive_span, String::new()), (inner.span, text)]))
            }
            Directive::Gmove { mode, id } => {
                let text = self.gmove(at, *mode, id.as_ref(), only(inner))?;
                Ok(self.in_place(stmt.span, text))
            }
            Directive::Array(on) => {
                let text = self.array_directive(at, on, only(inner))?;
                Ok(self.in_place(stmt.span, text))
            }
            _ => {
                let first = self.standalone(index, at)?;
                let text = self.stmt(inner)?;
                Ok(self.splice(stmt.span, &[(directive_span, first), (inner.span, text)]))
            }
        }
    }

    /// Whether a loop has nothing in it that could move an array.
    fn can_hoist(&self, stmt: &Stmt) -> bool {
        self.hoist.is_none()
            && !self.has_label(stmt)
            && !self.has_directive(stmt)
            && !self.calls(stmt, "xmp_malloc")
    }

    fn has_label(&self, stmt: &Stmt) -> bool {
        // Labels of a switch are inside of it; those that `goto` knows are not told apart from them.
        any(stmt, &mut |one| match &one.kind {
            StmtKind::Label(_) => !matches!(first_word(self.slice(one.span)), "case" | "default"),
            _ => false,
        })
    }

    fn has_directive(&self, stmt: &Stmt) -> bool {
        any(stmt, &mut |one| matches!(one.kind, StmtKind::Directive(_) | StmtKind::Directed(..)))
    }

    fn calls(&self, stmt: &Stmt, name: &str) -> bool {
        any(stmt, &mut |one| expressions_of(one).iter().any(|expr| self.calls_in(expr, name)))
    }

    /// Whether something is called of which we do not know what it reaches.
    pub(super) fn calls_unknown(&self, stmt: &Stmt) -> bool {
        any(stmt, &mut |one| expressions_of(one).iter().any(|expr| self.calls_unknown_in(expr)))
    }

    fn calls_unknown_in(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call(function, _)
                if !super::expressions::HARMLESS.contains(&self.slice(function.span)) =>
            {
                true
            }
            _ => children(expr).iter().any(|child| self.calls_unknown_in(child)),
        }
    }

    fn calls_in(&self, expr: &Expr, name: &str) -> bool {
        match &expr.kind {
            ExprKind::Call(function, _) if self.slice(function.span) == name => true,
            _ => children(expr).iter().any(|child| self.calls_in(child, name)),
        }
    }

    /// Translates with pointers that are computed once, before.
    fn hoisted(
        &mut self,
        may_move: bool,
        translate: impl FnOnce(&mut Self) -> Result<String>,
    ) -> Result<String> {
        self.hoist = Some(Hoist {
            depth: self.scopes.depth(),
            arrays: Vec::new(),
            may_move,
            has_coarray: false,
            aliased: false,
        });
        let text = translate(self);
        let hoist = self.hoist.take();
        let text = text?;
        let Some(hoist) = hoist else { return Ok(settle(&text, false)) };
        if hoist.arrays.is_empty() {
            return Ok(settle(&text, hoist.has_coarray && !hoist.aliased));
        }
        let aliased =
            hoist.aliased || hoist.arrays.iter().any(|array| array.storage == crate::names::Owner::Parameter);
        let declared = pointers(&hoist.arrays, aliased);
        let text = settle(&text, !aliased);
        // A pragma must begin its line.
        Ok(match text.trim_start_matches(' ').starts_with('\n') {
            true => format!("{{ {declared}{text} }}"),
            false => format!("{{ {declared} {text} }}"),
        })
    }

    /// A task or a loop must be left at its end.
    pub(super) fn refuse_jumps(&self, stmt: &Stmt, what: &str, allowed: &[&str]) -> Result<()> {
        let mut found = None;
        let has_label = self.has_label(stmt);
        jumps(stmt, false, &mut |one, inside_loop| {
            let word = match &one.kind {
                StmtKind::Return(_) => "return",
                StmtKind::Jump(Jump::Break) if !inside_loop => "break",
                StmtKind::Jump(Jump::Continue) if !inside_loop => "continue",
                StmtKind::Jump(Jump::Goto) if !has_label => "goto",
                _ => return,
            };
            if !allowed.contains(&word) {
                found = found.or(Some((one.span.start, word)));
            }
        });
        match found {
            Some((at, word)) => Err(Problem::new(
                at,
                format!("`{word}` leaves a {what}: {what}s must be left at their end, since the other nodes do not know of it; set a variable and test it behind the {what}"),
            )),
            None => Ok(()),
        }
    }
}

/// The one statement between braces, or the statement itself.
fn only(stmt: &Stmt) -> &Stmt {
    match &stmt.kind {
        StmtKind::Compound(list) if list.len() == 1 => only(&list[0]),
        _ => stmt,
    }
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("")
}

/// White space, line markers and comments.
fn is_blank(text: &str) -> bool {
    super::without_comments(text)
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with("# "))
}

/// Declares the pointers; arrays of one mapping share what they have in common.
fn pointers(arrays: &[Rc<Array>], aliased: bool) -> String {
    let mut out = String::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let restrict = if aliased { "" } else { "__restrict " };
    for (index, array) in arrays.iter().enumerate() {
        let first = array.key().map_or(index, |key| *known.entry(key).or_insert(index));
        let owner = &arrays[first];
        let mut brackets = String::new();
        for dim in (0..array.dims()).filter(|dim| array.is_cyclic(*dim)) {
            out.push_str(&format!(
                "const kxmp_dim kxd{dim}_{} __attribute__((unused)) = {}.map->dim[{dim}]; ",
                array.name,
                array.descriptor()
            ));
        }
        for dim in 1..array.dims() {
            let extent = array.extent(dim);
            if !extent.contains("map->") {
                brackets.push_str(&format!("[{extent}]"));
                continue;
            }
            if first == index {
                out.push_str(&format!("const long kxe{dim}_{} = {extent}; ", array.name));
            }
            brackets.push_str(&format!("[kxe{dim}_{}]", owner.name));
        }
        let (element, name, descriptor) = (&array.element, &array.name, array.descriptor());
        out.push_str(&match brackets.is_empty() {
            true => format!("{element} *{restrict}kxp_{name} = (void *){descriptor}.origin; "),
            false => format!("{element} (*{restrict}kxp_{name}){brackets} = (void *){descriptor}.origin; "),
        });
    }
    out.trim_end().to_owned()
}

pub(super) fn has_section(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Index(_, sub) if matches!(**sub, Sub::Section(..)) => true,
        // What a call is given by sections is its own matter, except of elemental functions.
        _ => children(expr).iter().any(|child| has_section(child)),
    }
}

/// The statements directly in a statement.
pub(super) fn inside(stmt: &Stmt) -> Vec<&Stmt> {
    match &stmt.kind {
        StmtKind::Compound(items) => items.iter().collect(),
        StmtKind::If(_, then, otherwise) => {
            std::iter::once(then).chain(otherwise).map(|one| &**one).collect()
        }
        StmtKind::For(one) => vec![&one.body],
        StmtKind::While(_, body)
        | StmtKind::Switch(_, body)
        | StmtKind::Do(body, _)
        | StmtKind::Label(body)
        | StmtKind::Directed(_, body) => vec![body],
        _ => Vec::new(),
    }
}

/// The expressions directly in a statement.
pub(super) fn expressions_of(stmt: &Stmt) -> Vec<&Expr> {
    match &stmt.kind {
        StmtKind::Expr(Some(e)) | StmtKind::Return(Some(e)) => vec![e],
        StmtKind::If(e, ..) | StmtKind::While(e, _) | StmtKind::Switch(e, _) | StmtKind::Do(_, e) => vec![e],
        StmtKind::Decl(declaration) => declared(declaration),
        StmtKind::For(one) => {
            let mut list: Vec<&Expr> = [&one.cond, &one.step].into_iter().flatten().collect();
            match &one.first {
                ForFirst::None => {}
                ForFirst::Expr(e) => list.push(e),
                ForFirst::Decl(declaration) => list.extend(declared(declaration)),
            }
            list
        }
        _ => Vec::new(),
    }
}

fn declared(declaration: &Declaration) -> Vec<&Expr> {
    declaration.declarators.iter().filter_map(|one| one.init.as_ref()).collect()
}

/// Whether something is true of a statement or of one in it.
pub(super) fn any(stmt: &Stmt, test: &mut dyn FnMut(&Stmt) -> bool) -> bool {
    test(stmt) || inside(stmt).into_iter().any(|one| any(one, test))
}

/// Where the `break` statements are that leave the loop whose body this is.
pub(super) fn breaks_of(body: &Stmt) -> Vec<usize> {
    let mut found = Vec::new();
    jumps(body, false, &mut |one, inside_loop| {
        if matches!(one.kind, StmtKind::Jump(Jump::Break)) && !inside_loop {
            found.push(one.span.start);
        }
    });
    found
}

/// Goes over statements, and says whether a loop or a switch is around.
fn jumps(stmt: &Stmt, inside_loop: bool, see: &mut dyn FnMut(&Stmt, bool)) {
    see(stmt, inside_loop);
    let loops =
        matches!(stmt.kind, StmtKind::For(_) | StmtKind::While(..) | StmtKind::Do(..) | StmtKind::Switch(..));
    for one in inside(stmt) {
        jumps(one, inside_loop || loops, see);
    }
}
