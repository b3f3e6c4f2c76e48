"""Gradio's components in the colours of the pages and in system fonts, so that nothing is loaded from elsewhere."""

import gradio as gr


def theme() -> gr.themes.Base:
    """Return the explorer's theme: CSS variables that have a light and a dark value."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    base = gr.themes.Base(font=fonts, font_mono=["ui-monospace", "monospace"], radius_size="sm", spacing_size="sm")
    ours = {
        "body_background_fill": "var(--ground)",
        "body_text_color": "var(--ink)",
        "body_text_color_subdued": "var(--faint)",
        "background_fill_primary": "var(--paper)",
        "background_fill_secondary": "var(--ground)",
        "block_background_fill": "var(--paper)",
        "block_border_color": "var(--line)",
        "block_label_text_color": "var(--faint)",
        "block_title_text_color": "var(--faint)",
        "border_color_primary": "var(--line)",
        "border_color_accent": "var(--accent)",
        "input_background_fill": "var(--paper)",
        "slider_color": "var(--accent)",
        "button_secondary_background_fill": "var(--paper)",
        "button_secondary_text_color": "var(--ink)",
        "button_secondary_border_color": "var(--line)",
    }
    dark = {f"{name}_dark": value for name, value in ours.items()}
    return base.set(color_accent="var(--accent)", **ours, **dark)
