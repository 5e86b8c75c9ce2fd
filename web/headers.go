package web

import "net/http"

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types troupe"

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // none would make browsers send Origin: null with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// fresh refuses requests that change something and do not come from a page of ours.
func (r *request) fresh() error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.via == viaToken { // no page of another site has a token
		return nil
	}
	refused := &fault{
		Status: http.StatusForbidden, Text: "This request does not come from a page of this dashboard, so nothing was done.",
		Do: "Open the page here and try again. If a proxy is in between, it has to pass the header Host on as it is, or --origin has to name the address that browsers see.",
	}
	if r.origin.Check(r.Request) != nil {
		return refused
	}
	// The check takes a request without these headers for one of a program. A program has no cookies,
	// and does not sign in at a proxy.
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" && (r.Header.Get("Cookie") != "" || r.via == viaProxy) {
		return refused
	}
	return nil
}
