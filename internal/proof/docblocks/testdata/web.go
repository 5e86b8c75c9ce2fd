package testdata

import (
	"net/http"

	"github.com/troupehq/troupe/web"
)

var (
	mux *http.ServeMux
	who func(*http.Request) (web.User, error)
)
