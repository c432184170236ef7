//! [`debug_fields`](crate::debug_fields): implements `Debug` for structs of which only some fields may be shown.

/// Implements `Debug` for a struct, showing only the given fields, as in `debug_fields!(Session { id, begin });`.
/// The other fields may be secret or long, or may not implement `Debug`.
#[macro_export]
macro_rules! debug_fields {
    ($type:ident { $($field:ident),* }) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[expect(dead_code, reason = "not shown")]
    struct Session {
        id: u32,
        key: &'static str,
    }

    crate::debug_fields!(Session { id });

    #[test]
    fn only_named_fields_are_shown() {
        assert_eq!(format!("{:?}", Session { id: 1, key: "secret" }), "Session { id: 1, .. }");
    }
}
