//! [`metrics`]: declares metrics in a table, one per line.

/// Declares a struct of metrics, and a function that creates and registers them.
///
/// Each line is `name: type { labels }, help, new;`. Without labels, the metric is a single value; with labels, it is a
/// family, and `name::Labels` is its set of labels. `new` creates the metric if its type has no default.
macro_rules! metrics {
    ($(#[$about:meta])* struct $table:ident;
     $($name:ident: $metric:ty $({ $($label:ident: $value:ty),* })?, $help:literal $(, $new:path)?;)*) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(super) struct $table {
            $(pub(super) $name: metrics!(@type $name $metric $({ $($label)* })?),)*
        }

        impl $table {
            /// Creates the metrics at zero and registers them.
            pub(super) fn new(registry: &mut ::prometheus_client::registry::Registry) -> Self {
                let new = Self { $($name: metrics!(@new $({ $($label)* })? $($new)?),)* };
                $(registry.register(stringify!($name), $help, new.$name.clone());)*
                new
            }
        }

        $(metrics!(@labels $name $({ $($label: $value),* })?);)*
    };
    (@type $name:ident $metric:ty) => { $metric };
    (@type $name:ident $metric:ty { $($label:ident)* }) => {
        ::prometheus_client::metrics::family::Family<$name::Labels, $metric>
    };
    (@new) => { Default::default() };
    (@new $new:path) => { $new() };
    (@new { $($label:ident)* }) => { Default::default() };
    (@new { $($label:ident)* } $new:path) => {
        ::prometheus_client::metrics::family::Family::new_with_constructor($new)
    };
    (@labels $name:ident) => {};
    (@labels $name:ident { $($label:ident: $value:ty),* }) => {
        pub(super) mod $name {
            #[derive(Debug, Clone, PartialEq, Eq, Hash, ::prometheus_client::encoding::EncodeLabelSet)]
            pub(in crate::observe) struct Labels {
                $(pub(in crate::observe) $label: $value,)*
            }
        }
    };
}

pub(in crate::observe) use metrics;
