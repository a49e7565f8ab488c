//! The source files of a crate, and the paths that they name, read with `syn`. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

/// A module's path from the root of its crate; empty for the root.
type ModulePath = Vec<String>;

/// One module: the file in which it stands, and what its names mean.
#[derive(Debug, Default)]
struct ModuleNames {
    file: String,
    /// Modules inside it
    modules: BTreeSet<String>,
    /// Names that it takes from elsewhere, by `use`
    imported: BTreeMap<String, Vec<String>>,
    /// Modules of which it takes all names
    globs: Vec<Vec<String>>,
}

/// A path that a file names, as in `crate::policy::Route`.
#[derive(Debug)]
struct NamedPath {
    module: ModulePath,
    segments: Vec<String>,
}

/// The source of a crate, without its tests.
#[derive(Debug, Default)]
pub(super) struct CrateSource {
    modules: BTreeMap<ModulePath, ModuleNames>,
    paths: Vec<NamedPath>,
    /// Names, and texts in quotation marks, each with its file
    words: Vec<(String, String)>,
    /// What the root hands on with `pub use`
    handed_on: BTreeSet<String>,
}

/// A file takes names from another file of its crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileImport {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) names: BTreeSet<String>,
}

impl CrateSource {
    /// Reads the crate of a folder such as `engine`, from the root of the repository. Files of the answers are named from there.
    pub(super) fn read(repository: &Path, folder: &str) -> Self {
        let mut source = Self::default();
        let root = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
        let root = root.into_iter().find(|file| repository.join(file).exists()).unwrap();
        source.read_file(repository, &root, Vec::new());
        source
    }

    fn read_file(&mut self, repository: &Path, file: &str, module: ModulePath) {
        let text = fs::read_to_string(repository.join(file)).unwrap();
        let (folder, name) = file.rsplit_once('/').unwrap();
        let folder = match name {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => file.trim_end_matches(".rs").to_owned(),
        };
        for (parent, name) in self.read_text(&text, file, module) {
            let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            let place = places.into_iter().find(|place| repository.join(place).exists());
            let place = place.unwrap_or_else(|| panic!("{file}: the file of `mod {name}` is not found"));
            self.read_file(repository, &place, [parent, vec![name]].concat());
        }
    }

    /// Reads the text of a file. The modules that stand in files of their own, each with the module that declares it.
    fn read_text(&mut self, text: &str, file: &str, module: ModulePath) -> Vec<(ModulePath, String)> {
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.modules.insert(module.clone(), ModuleNames { file: file.to_owned(), ..ModuleNames::default() });
        let mut reader = FileReader { source: self, file, module, elsewhere: Vec::new() };
        reader.visit_file(&syntax);
        reader.elsewhere
    }

    /// Which file takes what from which other file. A file that takes a name from the file of a module around it is left out:
    /// there stand the types that a module and its parts share, as `super::Compiler`.
    pub(super) fn imports(&self) -> Vec<FileImport> {
        let mut found: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for path in &self.paths {
            let from = &self.modules[&path.module].file;
            let Some((to, name)) = self.resolve(&path.module, &path.segments, 0) else { continue };
            let around = (0..path.module.len()).any(|length| self.modules[&path.module[..length]].file == to);
            if *from != to && !around {
                found.entry((from.clone(), to)).or_default().insert(name);
            }
        }
        found.into_iter().map(|((from, to), names)| FileImport { from, to, names }).collect()
    }

    /// The file that defines what a path means, and the name there; `None` if it is of another crate.
    fn resolve(&self, module: &[String], segments: &[String], depth: usize) -> Option<(String, String)> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => self.look_in(&[], rest, depth),
            "self" => self.look_in(module, rest, depth),
            "super" => self.resolve_above(module, rest, depth),
            _ => {
                let names = &self.modules[module];
                let is_known = names.modules.contains(first) || names.imported.contains_key(first);
                if is_known { self.look_in(module, segments, depth) } else { None }
            }
        }
    }

    fn resolve_above(&self, module: &[String], rest: &[String], depth: usize) -> Option<(String, String)> {
        let (_, above) = module.split_last()?;
        match rest.split_first() {
            Some((next, rest)) if next == "super" => self.resolve_above(above, rest, depth),
            _ => self.look_in(above, rest, depth),
        }
    }

    /// Looks for a name in a module, and follows what the module takes from elsewhere.
    fn look_in(&self, module: &[String], segments: &[String], depth: usize) -> Option<(String, String)> {
        let names = self.modules.get(module)?;
        let Some((first, rest)) = segments.split_first() else {
            return Some((names.file.clone(), module.last().cloned().unwrap_or_default()));
        };
        if names.modules.contains(first) {
            return self.look_in(&[module, std::slice::from_ref(first)].concat(), rest, depth);
        }
        // No path of a program that compiles is handed on so often.
        if depth < 20 {
            if let Some(path) = names.imported.get(first) {
                return self.resolve(module, &[path, rest].concat(), depth + 1);
            }
            let all = names.globs.iter().filter_map(|glob| self.resolve(module, &[glob, segments].concat(), depth + 1));
            if let Some(found) = all.into_iter().next() {
                return Some(found);
            }
        }
        Some((names.file.clone(), first.clone()))
    }

    /// Names and texts of the code that contain one of these words, in whatever case, each with its file. Comments do not count.
    pub(super) fn mentions(&self, words: &[&str]) -> BTreeSet<(String, String)> {
        let names = |text: &String| {
            let text = text.to_lowercase();
            words.iter().any(|word| text.contains(word))
        };
        self.words.iter().filter(|(_, text)| names(text)).cloned().collect()
    }

    /// The names that other crates find at the root of this one, without its modules.
    pub(super) fn handed_on(&self) -> &BTreeSet<String> {
        &self.handed_on
    }

    /// What the crate names of another crate, as `exchange::Effect`, each with its file.
    pub(super) fn taken_from(&self, other: &str) -> BTreeSet<(String, String)> {
        let paths = self.paths.iter().filter(|path| path.segments.first().is_some_and(|first| first == other));
        paths.map(|path| (self.modules[&path.module].file.clone(), path.segments[1..].join("::"))).collect()
    }
}

/// Collects what a file names.
struct FileReader<'s> {
    source: &'s mut CrateSource,
    file: &'s str,
    module: ModulePath,
    elsewhere: Vec<(ModulePath, String)>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// `#[doc(hidden)]`
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("hidden"))
    })
}

impl FileReader<'_> {
    fn path(&mut self, segments: Vec<String>) {
        self.source.paths.push(NamedPath { module: self.module.clone(), segments });
    }

    fn names(&mut self) -> &mut ModuleNames {
        self.source.modules.get_mut(&self.module).unwrap()
    }

    fn word(&mut self, word: String) {
        self.source.words.push((self.file.to_owned(), word));
    }

    fn use_tree(&mut self, tree: &UseTree, mut before: Vec<String>, is_handed_on: bool) {
        let (name, alias) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                return self.use_tree(&path.tree, before, is_handed_on);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, before.clone(), is_handed_on));
                return;
            }
            UseTree::Glob(_) => {
                self.names().globs.push(before.clone());
                before.push("*".to_owned());
                return self.path(before);
            }
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(rename) => (rename.ident.to_string(), rename.rename.to_string()),
        };
        let alias = if alias == "self" { before.last().cloned().unwrap_or_default() } else { alias };
        if name != "self" {
            before.push(name);
        }
        if is_handed_on && self.module.is_empty() {
            self.source.handed_on.insert(alias.clone());
        }
        self.names().imported.insert(alias, before.clone());
        // What is handed on is taken by whoever uses it.
        if !is_handed_on {
            self.path(before);
        }
    }

    /// Paths and texts in the tokens of a macro's call, which are no syntax yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.word(ident.to_string());
                    if colons != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(&mut path);
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Literal(literal) => self.word(literal.to_string()),
                        _ => {}
                    }
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.path(path);
        }
    }
}

impl<'ast> Visit<'ast> for FileReader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        self.names().modules.insert(name.clone());
        let Some((_, items)) = &item.content else {
            // The file of another crate.
            if item.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
                return;
            }
            return self.elsewhere.push((self.module.clone(), name));
        };
        self.module.push(name);
        let names = ModuleNames { file: self.file.to_owned(), ..ModuleNames::default() };
        self.source.modules.insert(self.module.clone(), names);
        items.iter().for_each(|item| self.visit_item(item));
        self.module.pop();
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_handed_on = !matches!(item.vis, Visibility::Inherited);
        let known = self.source.handed_on.clone();
        self.use_tree(&item.tree, Vec::new(), is_handed_on);
        if is_hidden(&item.attrs) {
            self.source.handed_on = known;
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.path(segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        // The texts of members of the policy are for its schema and its page.
        if ["members", "grammars"].iter().any(|name| call.path.is_ident(name)) {
            return;
        }
        self.tokens(call.tokens.clone());
    }

    // Comments of documentation are attributes.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.word(ident.to_string());
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.word(literal.value());
    }

    fn visit_lit_byte_str(&mut self, literal: &'ast syn::LitByteStr) {
        self.word(String::from_utf8_lossy(&literal.value()).into_owned());
    }
}
