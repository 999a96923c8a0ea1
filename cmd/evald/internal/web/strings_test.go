package web

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// Every text is there in every language, with the same parts that change.
func TestStrings(t *testing.T) {
	b := open(t, Config{}, "/")
	b.run(`import("/ui/strings.js").then((strings) => { window.texts = strings.texts; })`)
	b.until("window.texts !== undefined")
	wrong := valueOf[[]string](b, `(() => {
		const parts = (text) => String(text?.match(/\{\w+\}/g)?.sort());
		return Object.entries(texts).filter(([, all]) => all.length !== 2 || all.some((text) => !text || parts(text) !== parts(all[0]))).map(([key]) => key);
	})()`)
	if len(wrong) > 0 {
		t.Errorf("texts that are missing, or have other parts than in English: %q", wrong)
	}
}

// The page speaks the visitor's language, and keeps what the visitor chose.
func TestPageLanguage(t *testing.T) {
	b := open(t, Config{Metrics: services()}, "/")
	b.says("footer .language label", "Language")
	b.choose("language", "de")
	b.until(`document.documentElement.lang === "de"`)
	b.says("footer .language label", "Sprache")
	b.do(chromedp.Reload())
	b.says("footer .language label", "Sprache")
	if languages := valueOf[[]string](b, `[...document.querySelectorAll("#language option")].map((e) => e.textContent)`); !slices.Equal(languages, []string{"English", "Deutsch"}) {
		t.Errorf("the page offers %q", languages)
	}
	b.click("#to-service")
	b.says("#service-line", "Bereit: ")
	b.shows("service", "Status - evald")
	b.tidy("")
}
