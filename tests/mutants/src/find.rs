//! Finds what can be changed in a file, and writes the file with all changes in it, each behind a switch.
//!
//! The kinds of changes are those of cargo-mutants: a function returns a value at once, an operator becomes another one, a `!` or a `-`
//! is left out, a guard is true or false, an arm is left out where the match has an arm for all, a field is left out where the
//! struct has a base. What is computed at compile time, patterns and macros stay as they are.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Type, UnOp};

use crate::values;

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Its number in the program, from 1
    pub(crate) number: u32,
    /// The file, relative to the folder of the sources
    pub(crate) file: String,
    pub(crate) line: usize,
    /// What stands in that line
    pub(crate) code: String,
    /// What is changed, and in which function
    pub(crate) change: String,
    /// The name of the `const fn` that it is in
    pub(crate) const_fn: Option<String>,
}

/// A place with its changes.
#[derive(Debug)]
struct Site {
    range: Range<usize>,
    form: ChangeForm,
    /// The mutants, and what each puts there
    changes: Vec<(usize, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ChangeForm {
    /// An expression that takes the place of the one that is there
    Replace,
    /// An arm without a guard gets one
    NewGuard,
    /// A function returns
    Return,
    /// An iterator ends at once
    Empty,
    /// The word `const` of a function is left out
    Const,
}

/// A file, and what can be changed in it.
pub(crate) struct MutableFile {
    text: String,
    sites: Vec<Site>,
    pub(crate) mutants: Vec<Mutant>,
    /// The `const fn` of each site
    const_fns: Vec<Option<String>>,
}

/// A file with changes, and where each of them stands: bytes, and the index in [`MutableFile::mutants`].
pub(crate) struct Switched {
    pub(crate) text: String,
    pub(crate) changes: Vec<(Range<usize>, usize)>,
}

impl MutableFile {
    /// Finds what can be changed.
    ///
    /// # Errors
    /// The file is no Rust.
    pub(crate) fn read(file: &str, text: String) -> anyhow::Result<Self> {
        let tree = syn::parse_file(&text).map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
        let mut finder = Finder {
            source: Self { text, sites: Vec::new(), mutants: Vec::new(), const_fns: Vec::new() },
            file: file.to_owned(),
            owner: String::new(),
            function: String::new(),
            const_fn: None,
        };
        finder.visit_file(&tree);
        Ok(finder.source)
    }

    /// Writes the file with the changes that are wanted. The functions with these names stay `const`, and nothing in them changes.
    pub(crate) fn switched(&self, is_wanted: impl Fn(&Mutant) -> bool, stays_const: impl Fn(&str) -> bool) -> Switched {
        let mut order: Vec<usize> = (0..self.sites.len())
            .filter(|index| !matches!(self.const_fns.get(*index), Some(Some(name)) if stays_const(name)))
            .collect();
        order.sort_by_key(|index| {
            self.sites.get(*index).map(|site| (site.range.start, std::cmp::Reverse(site.range.end), *index))
        });
        let sites: Vec<&Site> = order.iter().filter_map(|index| self.sites.get(*index)).collect();
        let mut writer = SwitchWriter { source: self, is_wanted: &is_wanted, text: String::new(), changes: Vec::new() };
        writer.write(0..self.text.len(), &sites);
        Switched { text: writer.text, changes: writer.changes }
    }

    fn at(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
}

struct SwitchWriter<'s, W> {
    source: &'s MutableFile,
    is_wanted: &'s W,
    text: String,
    changes: Vec<(Range<usize>, usize)>,
}

impl<W: Fn(&Mutant) -> bool> SwitchWriter<'_, W> {
    /// Writes a part of the file, with the sites that lie in it.
    fn write(&mut self, range: Range<usize>, sites: &[&Site]) {
        let mut at = range.start;
        let mut rest = sites;
        while let Some((site, others)) = rest.split_first() {
            let inside = others.iter().take_while(|other| other.range.start < site.range.end).count();
            let (inner, after) = others.split_at_checked(inside).unwrap_or((others, &[]));
            self.text.push_str(self.source.at(at..site.range.start));
            self.site(site, inner);
            at = site.range.end;
            rest = after;
        }
        self.text.push_str(self.source.at(at..range.end));
    }

    /// Notes that a change stands here.
    fn change(&mut self, mutant: usize, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.changes.push((start..self.text.len(), mutant));
    }

    fn site(&mut self, site: &Site, inner: &[&Site]) {
        let source = self.source;
        let wanted: Vec<(usize, u32, &str)> = site
            .changes
            .iter()
            .filter_map(|(index, text)| source.mutants.get(*index).map(|mutant| (*index, mutant, text.as_str())))
            .filter(|(_, mutant, _)| (self.is_wanted)(mutant))
            .map(|(index, mutant, text)| (index, mutant.number, text))
            .collect();
        let range = site.range.clone();
        if site.form == ChangeForm::Const {
            // A function that can be switched is no constant.
            self.text.push_str("     ");
            return;
        }
        if wanted.is_empty() {
            return self.write(range, inner);
        }
        match site.form {
            ChangeForm::Replace => {
                self.text.push('(');
                for (index, number, text) in wanted {
                    self.text.push_str(&format!("if ::edge_mutants::on({number}) {{ "));
                    self.change(index, text);
                    self.text.push_str(" } else ");
                }
                self.text.push_str("{ ");
                self.write(range, inner);
                self.text.push_str(" })");
            }
            ChangeForm::NewGuard => {
                for (index, number, _) in wanted {
                    self.change(index, &format!(" if !::edge_mutants::on({number})"));
                }
                self.write(range, inner);
            }
            ChangeForm::Return => {
                for (index, number, text) in wanted {
                    self.change(index, &format!(" if ::edge_mutants::on({number}) {{ return {text}; }}"));
                }
                self.write(range, inner);
            }
            ChangeForm::Empty => {
                for (index, number, _) in &wanted {
                    self.change(
                        *index,
                        &format!("let limit = if ::edge_mutants::on({number}) {{ 0 }} else {{ usize::MAX }};"),
                    );
                }
                self.text.push_str("({");
                self.write(range, inner);
                self.text.push_str("}).take(limit)");
            }
            ChangeForm::Const => {}
        }
    }
}

struct Finder {
    source: MutableFile,
    file: String,
    /// The type or the trait whose functions are looked at
    owner: String,
    function: String,
    const_fn: Option<String>,
}

/// Where something stands in the text.
fn range(node: &impl syn::spanned::Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn has_attribute(attributes: &[syn::Attribute], what: &[&str]) -> bool {
    attributes.iter().any(|attribute| {
        let text = match &attribute.meta {
            syn::Meta::Path(path) => path.get_ident().map(ToString::to_string).unwrap_or_default(),
            syn::Meta::List(list) => list.tokens.to_string(),
            syn::Meta::NameValue(_) => String::new(),
        };
        what.contains(&text.as_str())
    })
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    has_attribute(attributes, &["test"])
}

/// Whether an expression is a condition that binds names.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The operators that take the place of one.
fn other_operators(operator: &BinOp) -> (&'static str, &'static [&'static str]) {
    match operator {
        BinOp::Eq(_) => ("==", &["!="]),
        BinOp::Ne(_) => ("!=", &["=="]),
        BinOp::And(_) => ("&&", &["||"]),
        BinOp::Or(_) => ("||", &["&&"]),
        BinOp::Lt(_) => ("<", &["==", ">", "<="]),
        BinOp::Gt(_) => (">", &["==", "<", ">="]),
        BinOp::Le(_) => ("<=", &[">", "<"]),
        BinOp::Ge(_) => (">=", &["<", ">"]),
        BinOp::Add(_) => ("+", &["-", "*"]),
        BinOp::Sub(_) => ("-", &["+", "/"]),
        BinOp::Mul(_) => ("*", &["+", "/"]),
        BinOp::Div(_) => ("/", &["%", "*"]),
        BinOp::Rem(_) => ("%", &["/", "+"]),
        BinOp::Shl(_) => ("<<", &[">>"]),
        BinOp::Shr(_) => (">>", &["<<"]),
        BinOp::BitAnd(_) => ("&", &["|", "^"]),
        BinOp::BitOr(_) => ("|", &["&", "^"]),
        BinOp::BitXor(_) => ("^", &["|", "&"]),
        BinOp::AddAssign(_) => ("+=", &["-=", "*="]),
        BinOp::SubAssign(_) => ("-=", &["+=", "/="]),
        BinOp::MulAssign(_) => ("*=", &["+=", "/="]),
        BinOp::DivAssign(_) => ("/=", &["%=", "*="]),
        BinOp::RemAssign(_) => ("%=", &["/=", "+="]),
        BinOp::BitAndAssign(_) => ("&=", &["|="]),
        BinOp::BitOrAssign(_) => ("|=", &["&="]),
        BinOp::BitXorAssign(_) => ("^=", &["|=", "&="]),
        BinOp::ShlAssign(_) => ("<<=", &[">>="]),
        BinOp::ShrAssign(_) => (">>=", &["<<="]),
        _ => ("", &[]),
    }
}

impl Finder {
    fn text(&self, node: &impl syn::spanned::Spanned) -> String {
        self.source.at(range(node)).to_owned()
    }

    /// The text of something in one line, for people.
    fn line(&self, node: &impl syn::spanned::Spanned) -> String {
        self.text(node).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn place(&mut self, range: Range<usize>, form: ChangeForm, changes: Vec<(usize, String)>) {
        self.source.sites.push(Site { range, form, changes });
        self.source.const_fns.push(self.const_fn.clone());
    }

    fn mutant(&mut self, at: Span, change: String) -> usize {
        let (file, line, const_fn) = (self.file.clone(), at.start().line, self.const_fn.clone());
        let code = self.source.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim().to_owned();
        self.source.mutants.push(Mutant { number: 0, file, line, code, change, const_fn });
        self.source.mutants.len() - 1
    }

    fn replace(&mut self, at: Span, range: Range<usize>, changes: Vec<(String, String)>) {
        let changes = changes.into_iter().map(|(change, text)| (self.mutant(at, change), text)).collect();
        self.place(range, ChangeForm::Replace, changes);
    }

    fn function(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        if is_test(attributes) || signature.unsafety.is_some() || signature.asyncness.is_some() {
            return;
        }
        let name = if self.owner.is_empty() { String::new() } else { format!("{}::", self.owner) };
        let outer = std::mem::replace(&mut self.function, format!("{name}{}", signature.ident));
        let outer_const = self.const_fn.take();
        if let Some(token) = &signature.constness {
            self.const_fn = Some(signature.ident.to_string());
            self.place(range(token), ChangeForm::Const, Vec::new());
        }
        let is_default = self.owner.starts_with("<impl Default for ");
        if !block.stmts.is_empty() && !is_default {
            self.returns(signature, block);
        }
        self.visit_block(block);
        self.function = outer;
        self.const_fn = outer_const;
    }

    /// A function that returns something at once.
    fn returns(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let whole = range(block);
        let inside = whole.start + 1..whole.end - 1;
        let body = self.source.at(inside.clone()).trim().to_owned();
        let function = self.function.clone();
        let (told, values) = match &signature.output {
            ReturnType::Default => (String::new(), vec!["()".to_owned()]),
            ReturnType::Type(_, of) => match &**of {
                Type::Never(_) => return,
                Type::ImplTrait(implementation) => {
                    let told = self.line(implementation);
                    if told.contains("Iterator") && !body.contains("return") && !body.contains('?') {
                        let change = format!("replace {function} -> {told} with ::std::iter::empty()");
                        let mutant = self.mutant(signature.ident.span(), change);
                        self.place(inside, ChangeForm::Empty, vec![(mutant, String::new())]);
                    }
                    return;
                }
                of => (format!(" -> {}", self.line(of)), values::of(of)),
            },
        };
        let mut changes = Vec::new();
        for value in values.into_iter().filter(|value| *value != body) {
            let change = format!("replace {function}{told} with {value}");
            changes.push((self.mutant(signature.ident.span(), change), value));
        }
        self.place(inside.start..inside.start, ChangeForm::Return, changes);
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let outer = std::mem::take(&mut self.owner);
        self.function(&item.attrs, &item.sig, &item.block);
        self.owner = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let of = self.line(&*item.self_ty);
        let name = match &item.trait_ {
            Some((_, path, _)) => format!("<impl {} for {of}>", self.line(path)),
            None => of,
        };
        let outer = std::mem::replace(&mut self.owner, name);
        item.items.iter().for_each(|item| self.visit_impl_item(item));
        self.owner = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let outer = std::mem::replace(&mut self.owner, item.ident.to_string());
        item.items.iter().for_each(|item| self.visit_trait_item(item));
        self.owner = outer;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // What is computed at compile time cannot be switched.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let (operator, others) = other_operators(&binary.op);
        if !others.is_empty() && !has_let(&binary.left) && !has_let(&binary.right) {
            let (left, right) = (self.text(&*binary.left), self.text(&*binary.right));
            let function = self.function.clone();
            let change = |other: &&str| {
                (format!("replace {operator} with {other} in {function}"), format!("({left}) {other} {right}"))
            };
            self.replace(binary.op.span(), range(binary), others.iter().map(change).collect());
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let operator = match &unary.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => return visit::visit_expr_unary(self, unary),
        };
        let (text, change) = (self.text(&*unary.expr), format!("delete {operator} in {}", self.function));
        self.replace(unary.op.span(), range(unary), vec![(change, text)]);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        self.visit_expr(&matched.expr);
        let is_for_all = |arm: &syn::Arm| arm.guard.is_none() && matches!(&arm.pat, syn::Pat::Wild(_));
        let has_one = matched.arms.iter().any(is_for_all);
        for arm in &matched.arms {
            let pattern = self.line(&arm.pat);
            let function = self.function.clone();
            let guard = arm.guard.as_ref().map(|(_, guard)| &**guard).filter(|guard| !has_let(guard));
            let is_left_out = has_one && !is_for_all(arm);
            if let Some(guard) = guard {
                let told = self.line(guard);
                let change =
                    |value: &str| (format!("replace match guard {told} with {value} in {function}"), value.to_owned());
                self.replace(guard.span(), range(guard), vec![change("true"), change("false")]);
            } else if is_left_out && arm.guard.is_none() {
                let mutant = self.mutant(arm.span(), format!("delete match arm {pattern} in {function}"));
                let end = range(&arm.pat).end;
                self.place(end..end, ChangeForm::NewGuard, vec![(mutant, String::new())]);
            }
            if let Some((_, guard)) = &arm.guard {
                self.visit_expr(guard);
            }
            self.visit_expr(&arm.body);
        }
    }

    fn visit_expr_struct(&mut self, made: &'ast syn::ExprStruct) {
        if made.rest.is_some() {
            let (name, function, whole) = (self.line(&made.path), self.function.clone(), range(made));
            let changes = made.fields.pairs().map(|pair| {
                let field = pair.value();
                let after = pair.punct().map_or(range(field).end, |comma| range(comma).end);
                let change =
                    format!("delete field {} from struct {name} expression in {function}", self.line(&field.member));
                let kept =
                    [whole.start..range(field).start, after..whole.end].map(|part| self.source.at(part).to_owned());
                (change, kept.concat())
            });
            let changes = changes.collect();
            self.replace(made.span(), whole, changes);
        }
        visit::visit_expr_struct(self, made);
    }
}
