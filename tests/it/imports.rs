//! The graph of imports between the files of the crate. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

pub type Files = BTreeMap<String, String>;
pub type Imports = BTreeMap<String, BTreeSet<String>>;
type Names = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    /// Paths; the names that `use` gives them, "" elsewhere; whether it is a `pub use`.
    paths: Vec<(Names, String, bool)>,
    words: BTreeSet<String>,
}

/// Modules by path, which begins with `lib` or `bin`.
type Modules = BTreeMap<Names, Module>;

fn flatten(code: TokenStream, tokens: &mut Names) {
    for token in code {
        if let TokenTree::Group(group) = token {
            let [open, close] = if group.delimiter() == Delimiter::Brace { ["{", "}"] } else { ["(", ")"] };
            tokens.push(open.into());
            flatten(group.stream(), tokens);
            tokens.push(close.into());
        } else if token.to_string() == ":" && tokens.last().is_some_and(|last| last == ":") {
            *tokens.last_mut().expect("a colon") = "::".into();
        } else {
            tokens.push(token.to_string());
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Adds the paths of `a::{b, c::d as e};` and their names. Returns the position of the semicolon.
fn read_use(tokens: &[String], mut at: usize, is_public: bool, own: &mut Module) -> usize {
    let (mut path, mut outer) = (Names::new(), vec![0]);
    loop {
        match tokens[at].as_str() {
            "{" => outer.push(path.len()),
            "," | "}" | ";" => {
                if path.len() > outer[outer.len() - 1] {
                    let name = path.iter().rfind(|name| *name != "self").expect("a name").clone();
                    path.truncate(path.iter().position(|name| name == "as").unwrap_or(path.len()));
                    own.paths.push((path.clone(), name, is_public));
                }
                outer.truncate(outer.len() - usize::from(tokens[at] == "}"));
                path.truncate(outer[outer.len() - 1]);
            }
            "::" => {}
            name => path.push(name.to_owned()),
        }
        if tokens[at] == ";" {
            return at;
        }
        at += 1;
    }
}

fn read(files: &Files, file: &str, mut module: Names, modules: &mut Modules) {
    let Some(text) = files.get(file) else { return };
    let mut tokens = Names::new();
    flatten(text.parse().unwrap_or_else(|why| panic!("src/{file}: {why}")), &mut tokens);
    let folder = ["lib.rs", "main.rs", "mod.rs"].iter().find_map(|root| file.strip_suffix(root));
    let folder = folder.map_or(file.replace(".rs", "/"), str::to_owned);
    let new = || Module { file: file.to_owned(), ..Module::default() };
    modules.insert(module.clone(), new());
    let (mut at, mut outer) = (0, Vec::new());
    while at < tokens.len() {
        let own = modules.get_mut(&module).expect("this module");
        let before = tokens[at.saturating_sub(4)..at].concat();
        match tokens[at].as_str() {
            "{" => outer.push(module.clone()),
            "}" => module = outer.pop().expect("an open brace"),
            "test" if before == "#(cfg(" || before == "cfg(all(" => {
                let mut depth = if before == "#(cfg(" { 2 } else { 3 };
                while depth > 0 || !";}".contains(&tokens[at]) {
                    at += 1;
                    depth += i32::from("({".contains(&tokens[at])) - i32::from(")}".contains(&tokens[at]));
                }
            }
            "mod" => {
                let below = [&module[..], &tokens[at + 1..at + 2]].concat();
                if tokens[at + 2] == "{" {
                    modules.entry(below.clone()).or_insert_with(new);
                    outer.push(std::mem::replace(&mut module, below));
                } else {
                    read(files, &format!("{folder}{}.rs", tokens[at + 1]), below.clone(), modules);
                    read(files, &format!("{folder}{}/mod.rs", tokens[at + 1]), below, modules);
                }
                at += 2;
            }
            "use" if is_name(&tokens[at + 1]) => {
                at = read_use(&tokens, at + 1, before.ends_with("pub") || before.starts_with("pub("), own);
            }
            name if is_name(name) => {
                own.words.insert(name.to_owned());
                let is_more =
                    |pair: &&[String]| matches!(pair, [colons, name] if colons == "::" && is_name(name));
                let more = tokens[at + 1..].chunks(2).take_while(is_more).count();
                if more > 0 && !before.ends_with("::") {
                    let path = tokens[at..].iter().step_by(2).take(more + 1);
                    own.paths.push((path.cloned().collect(), String::new(), false));
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the modules that define what a path in `module` names: several by platform, none in
/// other crates.
fn definers(modules: &Modules, mut module: Names, path: &[String]) -> Vec<Names> {
    for (at, name) in path.iter().enumerate() {
        let below = [&module[..], &path[at..=at]].concat();
        let all = modules[&module].paths.iter();
        let mut declared = all.filter(|(to, known, _)| known == name && to[0] != *name).peekable();
        match name.as_str() {
            "crate" => module.truncate(1),
            "super" => drop(module.pop()),
            "self" | "*" => {}
            "gpusched" if module[0] == "bin" => module = vec!["lib".into()],
            _ if modules.contains_key(&below) => module = below,
            _ if declared.peek().is_some() => {
                let paths = declared.map(|(to, ..)| [to, &path[at + 1..]].concat());
                return paths.flat_map(|path| definers(modules, module.clone(), &path)).collect();
            }
            _ => return Some(module).filter(|_| at > 0).into_iter().collect(),
        }
    }
    vec![module]
}

/// Follows names through `use` to their files. A `pub use` of a module below is an import only if
/// its name is used.
pub fn imports(files: &Files) -> Imports {
    let (mut modules, mut imports) = (Modules::new(), Imports::new());
    read(files, "lib.rs", vec!["lib".into()], &mut modules);
    read(files, "bin/gpusched/main.rs", vec!["bin".into()], &mut modules);
    for (at, module) in &modules {
        let own = imports.entry(module.file.clone()).or_default();
        for (path, name, is_public) in &module.paths {
            let definers = definers(&modules, at.clone(), path).into_iter();
            let is_import = |to: &Names| !is_public || !to.starts_with(at) || module.words.contains(name);
            own.extend(definers.filter(is_import).map(|to| modules[&to].file.clone()));
        }
        own.remove(&module.file);
    }
    imports
}

/// Returns the files of a circle, each of which imports from the next. Empty if none exists.
pub fn circle(mut imports: Imports) -> Vec<String> {
    let next = |all: &Imports, file: &str| all[file].iter().find(|used| all.contains_key(*used)).cloned();
    while let Some(end) = imports.keys().find(|file| next(&imports, file).is_none()).cloned() {
        imports.remove(&end);
    }
    let mut chain: Vec<String> = imports.keys().take(1).cloned().collect();
    while let Some(file) = chain.last().and_then(|last| next(&imports, last)) {
        if let Some(start) = chain.iter().position(|known| *known == file) {
            return chain.split_off(start);
        }
        chain.push(file);
    }
    chain
}
