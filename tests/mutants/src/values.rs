//! The values that a function returns at once in a mutant, by the type that is written in its signature.

use syn::{GenericArgument, PathArguments, Type};

/// No more than so many for a function.
const MOST: usize = 6;

/// Expressions of a type. They need not compile: what does not is left out later.
pub(crate) fn of(returned: &Type) -> Vec<String> {
    let mut values = of_type(returned);
    values.truncate(MOST);
    values
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn of_type(of: &Type) -> Vec<String> {
    match of {
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Group(inner) => of_type(&inner.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => texts(&["()"]),
        Type::Tuple(tuple) => {
            let mut all = vec![String::new()];
            for part in &tuple.elems {
                let values = of_type(part);
                all =
                    all.iter().flat_map(|start| values.iter().map(move |value| format!("{start}{value}, "))).collect();
            }
            all.into_iter().map(|values| format!("({values})")).collect()
        }
        Type::Reference(reference) => of_reference(reference),
        Type::Array(array) => of_type(&array.elem).iter().map(|value| format!("[{value}; _]")).collect(),
        Type::Path(path) => path.path.segments.last().map(of_path).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn of_reference(reference: &syn::TypeReference) -> Vec<String> {
    let default = "Box::leak(Box::new(Default::default()))";
    if reference.mutability.is_some() {
        return texts(&[default]);
    }
    match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => texts(&["\"\"", "\"xyzzy\""]),
        Type::Slice(slice) => {
            let one = of_type(&slice.elem).into_iter().map(|value| format!("Vec::leak(vec![{value}])"));
            std::iter::once("&[]".to_owned()).chain(one).collect()
        }
        _ => texts(&[default]),
    }
}

fn of_path(last: &syn::PathSegment) -> Vec<String> {
    let argument = || match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(of) => Some(of_type(of)),
            _ => None,
        }),
        _ => None,
    };
    let wrapped = |before: &str, after: &str| -> Vec<String> {
        argument().unwrap_or_default().iter().map(|value| format!("{before}{value}{after}")).collect()
    };
    let and = |first: &str, others: Vec<String>| std::iter::once(first.to_owned()).chain(others).collect();
    match last.ident.to_string().as_str() {
        "bool" => texts(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => texts(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => texts(&["0", "1", "-1"]),
        "f32" | "f64" => texts(&["0.0", "1.0", "-1.0"]),
        "String" => texts(&["String::new()", "\"xyzzy\".into()"]),
        "Cow" => texts(&["Default::default()"]),
        "Option" => and("None", wrapped("Some(", ")")),
        "Result" => wrapped("Ok(", ")"),
        "Vec" => and("vec![]", wrapped("vec![", "]")),
        name @ ("Box" | "Rc" | "Arc" | "Cell" | "RefCell") => wrapped(&format!("{name}::new("), ")"),
        _ => texts(&["Default::default()"]),
    }
}
