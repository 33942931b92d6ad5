//! The first part of a `for` under a loop directive, and its steps: the loop's variable, and others beside it, `for (i = 0, k = 2; ..)`.

use super::expressions::bare;
use super::Translator;
use crate::ast::{Declaration, Expr, ExprKind, For, ForFirst};
use crate::source::{Problem, Result};

/// `i = 0, k = 2` and `int i = 0, k = 2`, seen from a variable.
pub(super) struct First<'e> {
    pub(super) value: &'e Expr,
    /// The type, if the variable is declared here.
    pub(super) declared: Option<String>,
    /// Statements for the others. They are done once, before the loop.
    pub(super) others: String,
}

impl Translator<'_, '_> {
    /// The variable of a loop: of those that its first part sets, the one that is compared and has a step.
    pub(super) fn variable_of(&self, one: &For) -> Option<String> {
        let names = self.set_in_head(one);
        let is_compared =
            |name: &&String| one.cond.as_ref().is_some_and(|cond| self.comparison(cond, name).is_some());
        let has_step = |name: &&String| one.step.as_ref().is_some_and(|step| self.assigns(step, name));
        let both = names.iter().find(|name| is_compared(name) && has_step(name));
        both.or(names.iter().find(is_compared)).or(names.first()).cloned()
    }

    /// The variables that the first part of a `for` sets.
    pub(super) fn set_in_head(&self, one: &For) -> Vec<String> {
        match &one.first {
            ForFirst::Expr(first) => {
                parts(first).into_iter().filter_map(|part| self.assigned_to(part)).collect()
            }
            ForFirst::Decl(declaration) => {
                declaration.declarators.iter().map(|one| self.slice(one.name).to_owned()).collect()
            }
            ForFirst::None => {
                // `for (; i < n; i++)`: told when its head is read.
                let compared = one.cond.as_ref().and_then(|cond| match &bare(cond).kind {
                    ExprKind::Binary(_, left, _) => Some(self.slice(bare(left).span).to_owned()),
                    _ => None,
                });
                compared.into_iter().collect()
            }
        }
    }

    /// What an assignment assigns to.
    fn assigned_to(&self, expr: &Expr) -> Option<String> {
        match &bare(expr).kind {
            ExprKind::Assign(_, left, _) => Some(self.slice(bare(left).span).to_owned()),
            _ => None,
        }
    }

    /// What the first part of a `for` says of a variable.
    pub(super) fn first<'e>(&mut self, one: &'e For, name: &str) -> Result<First<'e>> {
        let missing = Problem::new(
            one.head.start,
            format!("the `for` of a loop directive begins with `{name} = first`"),
        );
        match &one.first {
            ForFirst::Expr(first) => self.assigned(first, name)?.ok_or(missing),
            ForFirst::Decl(declaration) => self.declared_first(declaration, name)?.ok_or(missing),
            ForFirst::None => Err(missing),
        }
    }

    fn assigned<'e>(&mut self, first: &'e Expr, name: &str) -> Result<Option<First<'e>>> {
        let parts = parts(first);
        let own = parts.iter().enumerate().find_map(|(at, part)| match &bare(part).kind {
            ExprKind::Assign(sign, left, right)
                if self.slice(*sign) == "=" && self.slice(bare(left).span) == name =>
            {
                Some((at, &**right))
            }
            _ => None,
        });
        let Some((own, value)) = own else { return Ok(None) };
        let mut others = String::new();
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| *at != own) {
            let set = self.assigned_to(part).unwrap_or_default();
            self.refuse_tangle(name, value, &set, part, at > own)?;
            others.push_str(&format!("{}; ", self.value(part)?));
        }
        Ok(Some(First { value, declared: None, others }))
    }

    fn declared_first<'e>(&mut self, declaration: &'e Declaration, name: &str) -> Result<Option<First<'e>>> {
        let list = &declaration.declarators;
        let own = list.iter().position(|one| self.slice(one.name) == name);
        let Some((own, value)) = own.and_then(|own| Some((own, list[own].init.as_ref()?))) else {
            return Ok(None);
        };
        let words: Vec<&str> = declaration.spec.words.iter().map(|span| self.slice(*span)).collect();
        let words = words.join(" ");
        let mut others = String::new();
        for (at, other) in list.iter().enumerate().filter(|(at, _)| *at != own) {
            let mut replaced = Vec::new();
            if let Some(init) = &other.init {
                self.refuse_tangle(name, value, self.slice(other.name), init, at > own)?;
                replaced.push((init.span, self.expr(init)?));
            }
            let text = super::flat(&self.splice(other.span, &replaced));
            others.push_str(&format!("{words} {text}; "));
        }
        Ok(Some(First { value, declared: Some(words), others }))
    }

    /// What stands behind the loop's variable is done before it here: neither may need the other.
    fn refuse_tangle(
        &self,
        name: &str,
        value: &Expr,
        set: &str,
        other: &Expr,
        is_behind: bool,
    ) -> Result<()> {
        let is_tangled = self.mentions(other, name) || self.mentions(value, set);
        match is_behind && is_tangled {
            true => Err(Problem::new(
                other.span.start,
                format!("the first values of `{name}` and of what is set beside it depend on each other: set the other before the loop, or in its body"),
            )),
            false => Ok(()),
        }
    }

    /// The step of the variable, and what is wrong if others have one, too.
    pub(super) fn own_step<'e>(&self, one: &'e For, name: &str) -> (Option<&'e Expr>, Option<Problem>) {
        let steps = one.step.as_ref().map(parts).unwrap_or_default();
        let [only] = steps[..] else {
            let is_own = |step: &&&Expr| self.assigns(step, name);
            let own = steps.iter().find(is_own).copied();
            let other = steps.iter().find(|step| !is_own(step));
            let problem = other.map(|other| {
                let text = self.slice(other.span);
                Problem::new(
                    other.span.start,
                    format!("`{text}` would count the iterations of this node, not those of the loop: only `{name}` has a step here; compute the other from `{name}` in the body"),
                )
            });
            return (own, problem);
        };
        (Some(only), None)
    }
}

/// What stands between the commas.
pub(super) fn parts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Comma(left, right) => [parts(left), parts(right)].concat(),
        ExprKind::Paren(inner) if matches!(bare(inner).kind, ExprKind::Comma(..)) => parts(inner),
        _ => vec![expr],
    }
}
