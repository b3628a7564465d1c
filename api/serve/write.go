package serve

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/bellows-ml/bellows/api"
)

func statusOf(c api.Code) int {
	switch c {
	case api.Invalid:
		return http.StatusBadRequest
	case api.Forbidden:
		return http.StatusForbidden
	case api.NotFound:
		return http.StatusNotFound
	case api.InUse:
		return http.StatusConflict
	case api.Limited:
		return http.StatusTooManyRequests
	case api.Unavailable:
		return http.StatusServiceUnavailable
	case api.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

func writeError(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = &api.Error{Code: api.Internal, Message: err.Error()}
	}
	writeJSON(w, statusOf(e.Code), e)
}

// errorJSON is the error as an answer's body.
func errorJSON(e *api.Error) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("serve: marshal an error: " + err.Error()) // two strings always marshal
	}
	return b
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the caller has gone; no reader is left.
	_ = json.NewEncoder(w).Encode(v)
}
