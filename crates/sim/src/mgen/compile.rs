//! From the syntax tree to instructions: resolves names, checks what can be checked before anything runs, and makes
//! a call of the library of every collective.

use super::code::*;
use super::expression::{number_value, time_value};
use super::tree::*;
use super::verbs::VERBS;
use crate::source::{Mistake, Source, Span};
use std::collections::HashMap;

/// The collectives as programs.
pub const LIBRARY: &str = include_str!("library.mgen");

/// A program and the values of its parameters.
pub(super) struct Compiled {
    pub(super) code: Code,
    /// Every parameter with its value, in the order of the program.
    pub(super) parameters: Vec<(String, Value)>,
}

/// Compiles a program for so many ranks, with parameters from the command line.
pub(super) fn compile(
    source: &Source,
    program: &Block,
    ranks: u32,
    given: &[(String, Value)],
) -> Result<Compiled, Mistake> {
    let library_source = Source::new("library of collectives", LIBRARY);
    let library = super::parse(&library_source)?;
    let mut compiler = Compiler::new(&library_source, ranks, given);
    compiler.program(&library)?;
    compiler.begin_user_program(source);
    compiler.program(program)?;
    compiler.refuse_unknown_parameters(program)?;
    Ok(Compiled { code: compiler.code, parameters: compiler.parameters })
}

struct Compiler<'a> {
    source: &'a Source,
    ranks: u32,
    given: &'a [(String, Value)],
    code: Code,
    parameters: Vec<(String, Value)>,
    procedures: HashMap<String, (u16, usize)>,
    functions: HashMap<String, (u16, usize)>,
    library: HashMap<String, u16>,
    /// Names of each open block, innermost last.
    scopes: Vec<HashMap<String, Known>>,
    in_procedure: bool,
    locals: u16,
    loops: Vec<Loop>,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Known {
    Parameter(Value),
    Variable(Place),
    Argument(u16),
}

/// Jumps out of a loop that are not resolved yet.
#[derive(Default)]
struct Loop {
    breaks: Vec<usize>,
    nexts: Vec<usize>,
}

type Done<T> = Result<T, Mistake>;

impl<'a> Compiler<'a> {
    fn new(source: &'a Source, ranks: u32, given: &'a [(String, Value)]) -> Compiler<'a> {
        Compiler {
            source,
            ranks,
            given,
            code: Code::default(),
            parameters: Vec::new(),
            procedures: HashMap::new(),
            functions: HashMap::new(),
            library: HashMap::new(),
            scopes: vec![HashMap::new()],
            in_procedure: false,
            locals: 0,
            loops: Vec::new(),
        }
    }

    /// What was compiled so far is the library.
    fn begin_user_program(&mut self, source: &'a Source) {
        self.source = source;
        self.library = self.procedures.drain().map(|(name, (number, _))| (name, number)).collect();
        self.functions.clear();
        self.scopes = vec![HashMap::new()];
        for procedure in &mut self.code.procedures {
            procedure.of_library = true;
        }
        self.code.library_end = self.code.instructions.len();
    }

    fn refuse_unknown_parameters(&self, program: &Block) -> Done<()> {
        let names = || self.parameters.iter().map(|(name, _)| &**name);
        let Some((unknown, _)) = self.given.iter().find(|(given, _)| names().all(|name| name != given))
        else {
            return Ok(());
        };
        let first = program.lines.iter().find_map(|line| line.statement.as_ref());
        let at = first.map_or(Span::default(), |first| Span { end: first.at.start + 1, ..first.at });
        let have = match self.parameters.is_empty() {
            true => "it has none".to_string(),
            false => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
        };
        let message = format!("the program has no parameter `{unknown}`; {have}");
        Err(self.source.mistake(at, message).with_nearest(unknown, names()))
    }

    fn mistake<T>(&self, at: Span, message: impl Into<String>) -> Done<T> {
        Err(self.source.mistake(at, message))
    }

    // ---- names ----

    fn look_up(&self, name: &str) -> Option<Known> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn declare(&mut self, name: &Name, what: Known) -> Done<()> {
        if BUILTINS.iter().any(|(builtin, ..)| *builtin == name.text) {
            return self.mistake(name.at, format!("`{}` is a function of the language", name.text));
        }
        match self.scopes.last_mut() {
            Some(scope) if scope.contains_key(&name.text) => self.mistake(
                name.at,
                format!("`{}` exists already in this block; write `{} = …`", name.text, name.text),
            ),
            Some(scope) => {
                scope.insert(name.text.clone(), what);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A place for a new variable.
    fn new_place(&mut self, at: Span) -> Done<Place> {
        let counter = if self.in_procedure { &mut self.locals } else { &mut self.code.globals };
        let Some(next) = counter.checked_add(1) else {
            return self.mistake(at, "there are too many variables");
        };
        let place = *counter;
        *counter = next;
        Ok(if self.in_procedure { Place::Local(place) } else { Place::Global(place) })
    }

    fn hidden(&mut self, at: Span) -> Done<(Place, Expr)> {
        let place = self.new_place(at)?;
        Ok((place, Expr { at, kind: ExprKind::Variable(place) }))
    }

    // ---- statements ----

    fn emit(&mut self, instruction: Instruction) -> usize {
        self.code.instructions.push(instruction);
        self.code.instructions.len() - 1
    }

    fn here(&self) -> usize {
        self.code.instructions.len()
    }

    fn patch(&mut self, at: usize, target: usize) {
        match &mut self.code.instructions[at] {
            Instruction::Jump(to) | Instruction::Unless(_, to) => *to = target,
            _ => {}
        }
    }

    fn program(&mut self, program: &Block) -> Done<()> {
        // Procedures can call procedures that stand below them, so their names come first.
        for line in &program.lines {
            if let Some(Statement { kind: StatementKind::Procedure(name, parameters, _), .. }) =
                &line.statement
            {
                let number = self.code.procedures.len() as u16;
                if self.procedures.insert(name.text.clone(), (number, parameters.len())).is_some() {
                    return self.mistake(name.at, format!("there are two procedures `{}`", name.text));
                }
                self.code.procedures.push(Procedure { entry: 0, locals: 0, of_library: false });
            }
        }
        // The main program first: procedures see its variables.
        self.code.entry = self.here();
        for line in &program.lines {
            match &line.statement {
                Some(Statement { kind: StatementKind::Procedure(..), .. }) | None => {}
                Some(statement) => self.statement(statement)?,
            }
        }
        self.emit(Instruction::Return);
        for line in &program.lines {
            if let Some(Statement { kind: StatementKind::Procedure(name, parameters, body), .. }) =
                &line.statement
            {
                self.procedure(name, parameters, body)?;
            }
        }
        Ok(())
    }

    fn procedure(&mut self, name: &Name, parameters: &[Name], body: &Block) -> Done<()> {
        self.in_procedure = true;
        self.locals = 0;
        self.scopes.push(HashMap::new());
        for parameter in parameters {
            let place = self.new_place(parameter.at)?;
            self.declare(parameter, Known::Variable(place))?;
        }
        let entry = self.here();
        self.block(body)?;
        self.emit(Instruction::Return);
        self.scopes.pop();
        self.in_procedure = false;
        if let Some((number, _)) = self.procedures.get(&name.text) {
            let locals = self.locals;
            self.code.procedures[*number as usize] = Procedure { entry, locals, of_library: false };
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Done<()> {
        self.scopes.push(HashMap::new());
        for statement in block.lines.iter().filter_map(|line| line.statement.as_ref()) {
            self.statement(statement)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Done<()> {
        let at = statement.at;
        match &statement.kind {
            StatementKind::Param(name, value) => self.parameter(name, value),
            StatementKind::Let(name, value) => {
                let value_place = self.new_place(name.at)?;
                self.set(value_place, value)?;
                self.declare(name, Known::Variable(value_place))
            }
            StatementKind::Assign(name, value) => match self.look_up(&name.text) {
                Some(Known::Variable(place)) => self.set(place, value),
                Some(_) => {
                    self.mistake(name.at, format!("`{}` is a parameter and cannot be changed", name.text))
                }
                None => Err(self.unknown_name(name.at, &name.text)),
            },
            StatementKind::Procedure(name, ..) => {
                self.mistake(name.at, "a procedure stands at the top of the program, not in a block")
            }
            StatementKind::Function(name, parameters, value) => self.function(name, parameters, value),
            StatementKind::Call(name, arguments) => self.call(name, arguments),
            StatementKind::For { name, from, to, step, body } => {
                self.for_loop(name, from, to, step.as_ref(), body)
            }
            StatementKind::While(condition, body) => {
                let condition = self.expression(condition)?;
                self.while_loop(condition, body)
            }
            StatementKind::Repeat(count, body) => self.repeat(count, body),
            StatementKind::If(arms, otherwise) => self.branches(arms, otherwise.as_ref()),
            StatementKind::Break => self.leave(at, "break", |inner| &mut inner.breaks),
            StatementKind::Next => self.leave(at, "next", |inner| &mut inner.nexts),
            StatementKind::Return => {
                self.emit(Instruction::Return);
                Ok(())
            }
            StatementKind::Assert(condition, said) => {
                let condition = self.expression(condition)?;
                self.emit(Instruction::Assert(condition, said.clone()));
                Ok(())
            }
            StatementKind::Operation(operation) => self.operation(operation, None),
        }
    }

    fn parameter(&mut self, name: &Name, value: &Expression) -> Done<()> {
        if self.in_procedure || self.scopes.len() > 1 {
            return self.mistake(name.at, "a parameter stands at the top of the program, not in a block");
        }
        let default = self.expression(value)?;
        let default = super::evaluate::constant(&self.code.functions, &default, self.ranks)
            .map_err(|wrong| self.source.mistake(wrong.at, wrong.message))?;
        let given = self.given.iter().rev().find(|(given, _)| *given == name.text).map(|(_, value)| *value);
        let value = given.unwrap_or(default);
        if value.what() != default.what() {
            let message = format!("`{}` is {}, but {} was given", name.text, default.what(), value.what());
            return self.mistake(name.at, message);
        }
        self.parameters.push((name.text.clone(), value));
        self.declare(name, Known::Parameter(value))
    }

    fn set(&mut self, place: Place, value: &Right) -> Done<()> {
        match value {
            Right::Expression(value) => {
                let value = self.expression(value)?;
                self.emit(Instruction::Set(place, value));
                Ok(())
            }
            Right::Operation(operation) => self.operation(operation, Some(place)),
        }
    }

    fn function(&mut self, name: &Name, parameters: &[Name], value: &Expression) -> Done<()> {
        let mut scope = HashMap::new();
        for (i, parameter) in parameters.iter().enumerate() {
            scope.insert(parameter.text.clone(), Known::Argument(i as u16));
        }
        self.scopes.push(scope);
        let body = self.expression(value);
        self.scopes.pop();
        if BUILTINS.iter().any(|(builtin, ..)| *builtin == name.text) {
            return self.mistake(name.at, format!("`{}` is a function of the language", name.text));
        }
        let number = self.code.functions.len() as u16;
        self.code.functions.push(body?);
        match self.functions.insert(name.text.clone(), (number, parameters.len())) {
            Some(_) => self.mistake(name.at, format!("there are two functions `{}`", name.text)),
            None => Ok(()),
        }
    }

    fn call(&mut self, name: &Name, arguments: &[Expression]) -> Done<()> {
        let Some((procedure, wanted)) = self.procedures.get(&name.text).copied() else {
            let mistake = self.source.mistake(name.at, format!("there is no procedure `{}`", name.text));
            let known: Vec<String> = self.procedures.keys().cloned().collect();
            let verbs = VERBS.iter().map(|verb| verb.name);
            return Err(mistake.with_nearest(&name.text, known.iter().map(|name| &**name).chain(verbs)));
        };
        self.check_count(name, wanted, arguments.len())?;
        let arguments = self.expressions(arguments)?;
        self.emit(Instruction::Call { procedure, arguments, at: name.at });
        Ok(())
    }

    fn check_count(&self, name: &Name, wanted: usize, given: usize) -> Done<()> {
        match wanted == given {
            true => Ok(()),
            false => {
                self.mistake(name.at, format!("`{}` takes {wanted} arguments, here are {given}", name.text))
            }
        }
    }

    fn for_loop(
        &mut self,
        name: &Name,
        from: &Expression,
        to: &Expression,
        step: Option<&Expression>,
        body: &Block,
    ) -> Done<()> {
        let (counter, counted) = self.hidden(name.at)?;
        let (end, ended) = self.hidden(to.at)?;
        let (from, to_value) = (self.expression(from)?, self.expression(to)?);
        self.emit(Instruction::Set(counter, from));
        self.emit(Instruction::Set(end, to_value));
        let one = Expr { at: name.at, kind: ExprKind::Constant(Value::Number(1)) };
        let step = step.map_or(Ok(one), |step| self.expression(step))?;
        let is_negative = matches!(step.kind, ExprKind::Constant(Value::Number(by)) if by < 0)
            || matches!(step.kind, ExprKind::Negative(_));
        let compare = if is_negative { Binary::Greater } else { Binary::Less };
        let condition = binary(to.at, compare, counted.clone(), ended);
        let start = self.here();
        let exit = self.emit(Instruction::Unless(condition, 0));
        self.loops.push(Loop::default());
        self.scopes.push(HashMap::new());
        // The body has a variable of its own, so that assigning to it does not change the loop.
        let own = self.new_place(name.at)?;
        self.emit(Instruction::Set(own, counted.clone()));
        self.declare(name, Known::Variable(own))?;
        self.block(body)?;
        self.scopes.pop();
        let next = self.here();
        self.emit(Instruction::Set(counter, binary(name.at, Binary::Add, counted, step)));
        self.emit(Instruction::Jump(start));
        self.end_loop(exit, next);
        Ok(())
    }

    fn while_loop(&mut self, condition: Expr, body: &Block) -> Done<()> {
        let start = self.here();
        let exit = self.emit(Instruction::Unless(condition, 0));
        self.loops.push(Loop::default());
        self.block(body)?;
        self.emit(Instruction::Jump(start));
        self.end_loop(exit, start);
        Ok(())
    }

    fn repeat(&mut self, count: &Expression, body: &Block) -> Done<()> {
        let (left, left_value) = self.hidden(count.at)?;
        let number = |value| Expr { at: count.at, kind: ExprKind::Constant(Value::Number(value)) };
        let count_value = self.expression(count)?;
        self.emit(Instruction::Set(left, count_value));
        let start = self.here();
        let exit = self
            .emit(Instruction::Unless(binary(count.at, Binary::Greater, left_value.clone(), number(0)), 0));
        self.emit(Instruction::Set(left, binary(count.at, Binary::Subtract, left_value, number(1))));
        self.loops.push(Loop::default());
        self.block(body)?;
        self.emit(Instruction::Jump(start));
        self.end_loop(exit, start);
        Ok(())
    }

    fn end_loop(&mut self, exit: usize, next: usize) {
        let end = self.here();
        self.patch(exit, end);
        let inner = self.loops.pop().unwrap_or_default();
        inner.breaks.iter().for_each(|jump| self.patch(*jump, end));
        inner.nexts.iter().for_each(|jump| self.patch(*jump, next));
    }

    fn leave(&mut self, at: Span, word: &str, list: impl Fn(&mut Loop) -> &mut Vec<usize>) -> Done<()> {
        let jump = self.here();
        match self.loops.last_mut() {
            Some(inner) => list(inner).push(jump),
            None => return self.mistake(at, format!("`{word}` stands in no loop")),
        }
        self.emit(Instruction::Jump(0));
        Ok(())
    }

    fn branches(&mut self, arms: &[(Expression, Block)], otherwise: Option<&Block>) -> Done<()> {
        let mut ends = Vec::new();
        for (condition, body) in arms {
            let condition = self.expression(condition)?;
            let skip = self.emit(Instruction::Unless(condition, 0));
            self.block(body)?;
            ends.push(self.emit(Instruction::Jump(0)));
            let next = self.here();
            self.patch(skip, next);
        }
        otherwise.map_or(Ok(()), |body| self.block(body))?;
        let end = self.here();
        ends.into_iter().for_each(|jump| self.patch(jump, end));
        Ok(())
    }

    // ---- operations ----

    fn operation(&mut self, operation: &Operation, handle: Option<Place>) -> Done<()> {
        if operation.verb.is_collective() {
            return self.collective(operation);
        }
        let act = self.act(operation)?;
        self.emit(Instruction::Act(Box::new(act), operation.at, handle));
        Ok(())
    }

    fn act(&mut self, operation: &Operation) -> Done<Act> {
        let amount = operation.amount.as_ref().map(|amount| self.expression(amount)).transpose()?;
        let value = |key: &str| self.clause(operation, key);
        let (tag, gap, flag, order) = (value("tag")?, value("gap")?, value("flag")?, self.order(operation)?);
        let (to, from) = (value("to")?, value("from")?);
        let name = operation.verb.name;
        // The parser has seen to it that amounts and clauses that must be are there.
        let there = |value: Option<Expr>| {
            value.ok_or_else(|| self.source.mistake(operation.at, format!("`{name}` lacks something")))
        };
        Ok(match name {
            "send" | "isend" => {
                Act::Send { blocking: name == "send", bytes: there(amount)?, to: there(to)?, tag, gap, order }
            }
            "recv" | "irecv" => Act::Receive { blocking: name == "recv", bytes: there(amount)?, from, tag },
            "put" => Act::Put { bytes: there(amount)?, to: there(to)?, flag, gap, order },
            "get" => Act::Get { bytes: there(amount)?, from: there(from)?, gap, order },
            "copy" => {
                Act::Copy { bytes: there(amount)?, from: there(from)?, to: there(to)?, flag, gap, order }
            }
            "atomic" => Act::Atomic { on: there(value("on")?)?, order },
            "wait" => amount.map_or(Act::WaitAll, Act::Wait),
            "await" => Act::WaitFlag { flag: there(amount)?, count: value("count")? },
            "step" => Act::Step,
            _ => Act::Compute(there(amount)?),
        })
    }

    /// The value of a clause; none if it is not there or is a word.
    fn clause(&self, operation: &Operation, key: &str) -> Done<Option<Expr>> {
        match operation.clauses.iter().find(|clause| clause.key == key).map(|clause| &clause.value) {
            Some(ClauseValue::Expression(value)) => self.expression(value).map(Some),
            _ => Ok(None),
        }
    }

    fn order(&self, operation: &Operation) -> Done<OrderBy> {
        let clause = operation.clauses.iter().find(|clause| clause.key == "order");
        Ok(match clause.map(|clause| &clause.value) {
            Some(ClauseValue::Expression(handle)) => OrderBy::After(self.expression(handle)?),
            Some(ClauseValue::Word(word)) if word == "all" => OrderBy::All,
            Some(ClauseValue::Word(word)) if word == "continue" => OrderBy::Continue,
            _ => OrderBy::None,
        })
    }

    /// A call of the library: `allreduce 8 by ring` becomes `allreduce_ring(8, 0, -1 ps)`; a
    /// gap below zero is none of its own.
    fn collective(&mut self, operation: &Operation) -> Done<()> {
        let verb = operation.verb;
        let by = operation.clauses.iter().find(|clause| clause.key == "by").map(|clause| &clause.value);
        let algorithm = match by {
            Some(ClauseValue::Word(word)) => word,
            _ => verb.algorithms[0],
        };
        if (verb.name, algorithm) == ("barrier", "ideal") {
            self.emit(Instruction::Act(Box::new(Act::Barrier), operation.at, None));
            return Ok(());
        }
        let constant = |value| Expr { at: operation.at, kind: ExprKind::Constant(value) };
        let bytes = operation.amount.as_ref().map(|amount| self.expression(amount)).transpose()?;
        let root = match self.clause(operation, "from")? {
            Some(root) => Some(root),
            None => self.clause(operation, "to")?,
        };
        if let Some(root) = &root {
            let number =
                |value| Box::new(Expr { at: root.at, kind: ExprKind::Constant(Value::Number(value)) });
            let ranks = Expr { at: root.at, kind: ExprKind::Ranks };
            let low = Expr {
                at: root.at,
                kind: ExprKind::Binary(Binary::GreaterEqual, Box::new(root.clone()), number(0)),
            };
            let high = binary(root.at, Binary::Less, root.clone(), ranks);
            let said = Some("there is no such rank".to_string());
            self.emit(Instruction::Assert(binary(root.at, Binary::And, low, high), said));
        }
        let arguments = vec![
            bytes.unwrap_or_else(|| constant(Value::Number(0))),
            root.unwrap_or_else(|| constant(Value::Number(0))),
            self.clause(operation, "gap")?.unwrap_or_else(|| constant(Value::Time(-1))),
        ];
        let name = format!("{}_{}", verb.name, algorithm.replace('-', "_"));
        let own = || self.procedures.get(&name).map(|(number, _)| *number);
        let Some(procedure) = self.library.get(&name).copied().or_else(own) else {
            return self.mistake(operation.at, format!("`{}` has no algorithm `{algorithm}`", verb.name));
        };
        self.emit(Instruction::Call { procedure, arguments, at: operation.at });
        Ok(())
    }

    // ---- expressions ----

    fn expressions(&self, expressions: &[Expression]) -> Done<Vec<Expr>> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn expression(&self, expression: &Expression) -> Done<Expr> {
        let at = expression.at;
        let boxed = |inner: &Expression| self.expression(inner).map(Box::new);
        let kind = match &expression.kind {
            ExpressionKind::Number(text) => match number_value(text) {
                Some(value) => ExprKind::Constant(Value::Number(value)),
                None => return self.mistake(at, "this number is too large"),
            },
            ExpressionKind::Timed(inner, unit) => match &inner.kind {
                ExpressionKind::Number(text) => match time_value(text, *unit) {
                    Some(value) => ExprKind::Constant(Value::Time(value)),
                    None => return self.mistake(at, "this time is too long"),
                },
                _ => ExprKind::Timed(boxed(inner)?, *unit),
            },
            ExpressionKind::Name(name) => match &**name {
                "rank" => ExprKind::Rank,
                "ranks" => ExprKind::Ranks,
                _ => match self.look_up(name) {
                    Some(Known::Parameter(value)) => ExprKind::Constant(value),
                    Some(Known::Variable(place)) => ExprKind::Variable(place),
                    Some(Known::Argument(number)) => ExprKind::Argument(number),
                    None => return Err(self.unknown_name(at, name)),
                },
            },
            ExpressionKind::Call(name, arguments) => self.function_call(name, arguments)?,
            ExpressionKind::Unary("not", inner) => ExprKind::Not(boxed(inner)?),
            ExpressionKind::Unary(_, inner) => ExprKind::Negative(boxed(inner)?),
            ExpressionKind::Binary(operator, left, right) => {
                ExprKind::Binary(Binary::parse(operator), boxed(left)?, boxed(right)?)
            }
            ExpressionKind::Parentheses(inner) => return self.expression(inner),
        };
        Ok(Expr { at, kind })
    }

    fn function_call(&self, name: &Name, arguments: &[Expression]) -> Done<ExprKind> {
        let given = self.expressions(arguments)?;
        if let Some((_, builtin, wanted, _)) = BUILTINS.iter().find(|(known, ..)| *known == name.text) {
            self.check_count(name, wanted.unwrap_or(given.len().max(1)), given.len())?;
            return Ok(ExprKind::Builtin(*builtin, given));
        }
        let Some((number, wanted)) = self.functions.get(&name.text).copied() else {
            let known: Vec<&str> = self.functions.keys().map(|known| &**known).collect();
            let builtins = BUILTINS.iter().map(|(known, ..)| *known);
            let mistake = self.source.mistake(name.at, format!("there is no function `{}`", name.text));
            return Err(mistake.with_nearest(&name.text, builtins.chain(known)));
        };
        self.check_count(name, wanted, given.len())?;
        Ok(ExprKind::Function(number, given))
    }

    fn unknown_name(&self, at: Span, name: &str) -> Mistake {
        let known: Vec<&str> =
            self.scopes.iter().flat_map(|scope| scope.keys().map(|name| &**name)).collect();
        let mistake = self.source.mistake(at, format!("there is no variable `{name}`"));
        mistake.with_nearest(name, known.into_iter().chain(["rank", "ranks"]))
    }
}

fn binary(at: Span, operator: Binary, left: Expr, right: Expr) -> Expr {
    Expr { at, kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)) }
}
