//! Panics that tests plant (feature `planted-panics`). Without the feature, nothing is here.

/// Panics in the hook with this name, if a test has asked for it.
#[inline]
pub(crate) fn point(hook: &str) {
    #[cfg(feature = "planted-panics")]
    planted::point(hook);
    #[cfg(not(feature = "planted-panics"))]
    let _ = hook;
}

/// Plants a panic in the next call of a hook: the request's header `x-test-panic` names it.
#[inline]
pub(crate) fn plant(request: crate::calls::RequestHandle<'_>) {
    #[cfg(feature = "planted-panics")]
    planted::plant(request);
    #[cfg(not(feature = "planted-panics"))]
    let _ = request;
}

#[cfg(feature = "planted-panics")]
mod planted {
    use crate::abi::HeaderType;
    use crate::calls::RequestHandle;
    use crate::process::locked;
    use std::sync::Mutex;

    static PLANTED: Mutex<Option<String>> = Mutex::new(None);

    pub(super) fn plant(request: RequestHandle<'_>) {
        let lines = request.header_lines(HeaderType::RequestHeader);
        let found = lines.lines().into_iter().flatten().find(|(name, _)| *name == b"x-test-panic");
        if let Some((_, hook)) = found {
            let hook = String::from_utf8_lossy(hook).into_owned();
            *locked(&PLANTED) = Some(hook);
        }
    }

    #[allow(clippy::panic)]
    pub(super) fn point(hook: &str) {
        let mut planted = locked(&PLANTED);
        if planted.as_deref() == Some(hook) {
            *planted = None;
            drop(planted);
            panic!("planted in {hook}");
        }
    }
}
