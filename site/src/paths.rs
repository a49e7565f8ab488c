//! Paths inside the repository and inside the site, as text with `/`.

/// `base` and then `link`, without `.` and `..`. `None` if it leads out of the root.
pub fn join(base: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The folder of a file.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// How a file in the folder `from` names the file `to`.
pub fn relative(from: &str, to: &str) -> String {
    let mut from: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    let mut to: Vec<&str> = to.split('/').collect();
    while from.first().is_some_and(|first| to.len() > 1 && to.first() == Some(first)) {
        from.remove(0);
        to.remove(0);
    }
    "../".repeat(from.len()) + &to.join("/")
}
