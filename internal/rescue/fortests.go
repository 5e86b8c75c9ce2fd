package rescue

import "time"

// This file is what tests of package fetch, which has the owners, change of a Rescuer.

// Looked has r take it that it looked then for owners that the expiries lack.
func (r *Rescuer) Looked(at time.Time) { r.looked = at }

// Searched has r take it that it asked then whether it is to search for lists that no index names.
func (r *Rescuer) Searched(at time.Time) { r.search.asked = at }

// Found are the lists that the search of r has found and that no round has named yet.
func (r *Rescuer) Found() []Unnamed { return r.search.found }
