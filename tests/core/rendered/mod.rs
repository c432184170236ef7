//! Generates random calls in every format, with code that shares nothing with the detector, and checks that the detector
//! finds them with the same meaning.
//!
//! A [`scene`] is the output of a model, a renderer in [`write`] writes it as a [`page`] in one format, and [`laws`] compare
//! what the detector finds with the scene. Like in all property tests, `PROPTEST_CASES` sets the number of cases.

mod found;
mod fragments;
mod laws;
mod page;
mod scene;
mod tools;
mod value;
mod write;

use toolwire::format;

macro_rules! every_format {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        mod calls_are_found {
            $(#[test] fn $name() { crate::rendered::laws::found(stringify!($name)); })*
        }

        mod calls_reach_the_client {
            $(#[test] fn $name() { crate::rendered::laws::exchanged(stringify!($name)); })*
        }

        mod long_strings_stream {
            $(#[test] fn $name() { crate::rendered::laws::streams(stringify!($name)); })*
        }

        mod cut_calls_stay_cut {
            $(#[test] fn $name() { crate::rendered::laws::cut_calls(stringify!($name)); })*
        }

        mod broken_calls_are_said_to_be_broken {
            $(#[test] fn $name() { crate::rendered::laws::broken_calls(stringify!($name)); })*
        }

        mod echoes_stay_text {
            $(#[test] fn $name() { crate::rendered::laws::echoes(stringify!($name)); })*
        }

        mod visibly_quoted_calls_stay_text {
            $(#[test] fn $name() { crate::rendered::laws::visibly_quoted(stringify!($name)); })*
        }

        mod repeated_calls_that_stand_alone_are_calls {
            $(#[test] fn $name() { crate::rendered::laws::alone(stringify!($name)); })*
        }

        mod texts_that_were_read_do_not_change_other_calls {
            $(#[test] fn $name() { crate::rendered::laws::unrelated(stringify!($name)); })*
        }

        mod trouble_is_survived {
            $(#[test] fn $name() { crate::rendered::laws::trouble(stringify!($name)); })*
        }
    };
}

#[rustfmt::skip]
every_format! {
    hermes qwen25 granite4 ernie45 longcat trinity pangu hyperclova rwkv calling_tool cwm granite3 granite20b_fc jamba hunyuan_a13b apriel minimax_m1 nemotron_toolcall
    llama3_json phi4_mini internlm2 xlam apertus gigachat3 gigachat31 gigachat35 command_r_plus command_r7b k2_horizon
    deepseek_v31 deepseek_v3 kimi_k2 mistral
    qwen3_coder mimo minicpmv seed_oss glm45 glm47 laguna iquest telechat4 solar_open2 hy_v3 minimax_m2 deepseek_v32 deepseek_v4 deepseek_v41 step3 dots minicpm5
    anthropic_legacy minimax_m3 toolify toolbridge cline morph_xml
    pythonic lfm2 olmo3 gemma3_toolcode functiongemma gemma4 sarashina
    pre fenced bare openai_function_call react ui_tars think
    functionary_v31 plamo3 solar_open harmony beam muse_atem kimi_k3 inkling functionary_v2 functionary_v32 glm4_9b
}

#[test]
fn every_format_is_written() {
    let mut all: Vec<&str> = format::ALL.iter().map(|format| format.name).collect();
    let mut named: Vec<&str> = NAMES.to_vec();
    let mut written: Vec<&str> = write::renderers().map(|renderer| renderer.name).collect();
    for names in [&mut all, &mut named, &mut written] {
        names.sort_unstable();
    }
    assert_eq!(named, all);
    assert_eq!(written, all);
}
