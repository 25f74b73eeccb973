//! Fields that hold one word out of a few.

/// An enum whose variants are written as they are named, and whose documentation is kept for the API's reference: `Name: Default { … }`,
/// or `Name { … }` if there is no default.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident $(: $default:ident)? { $($(#[doc = $doc:literal])+ $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in the API.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// What each word means.
            pub(crate) const MEANINGS: &'static [(&'static str, &'static str)] = &[
                $((stringify!($variant), concat!($($doc),+)),)+
            ];
        }

        $(
            impl Default for $name {
                fn default() -> Self {
                    Self::$default
                }
            }
        )?

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;
