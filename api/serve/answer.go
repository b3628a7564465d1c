package serve

import (
	"encoding/json"
	"net/http"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// answer writes what f makes of a request of the caller, or why not.
func answer(w http.ResponseWriter, r *http.Request, f func(who cluster.Owner) (any, error)) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	reply, err := f(who)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, reply)
}

func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return api.Fault(api.Invalid, "request: %s", err)
	}
	return nil
}
