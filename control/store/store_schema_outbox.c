/* What the audit log has yet to hear of leases and runs (control/work/outbox.c). */
#include "control/store/store_schema.h"

/*
 * Written by triggers, so in the very transaction of what it tells, whichever statement that is. seq: the order of the
 * changes. event_id: the same in every copy of the event that a crash may leave in the audit log.
 */
/* clang-format off */
#define TELL "INSERT INTO outbox(event_id, event, sandbox, outcome, detail) VALUES(lower(hex(randomblob(16))), "
#define LEASE "'lease_id', new.id, 'request_id', new.call, 'principal', new.principal, 'user_id', new.user," \
	      " 'workflow_id', new.workflow, 'client_request_id', new.request"
#define RUN "'lease_id', new.lease, 'run_id', new.run, 'request_id', new.call, 'principal', new.principal," \
	    " 'user_id', new.user, 'workflow', new.workflow, 'version', new.version"
#define SANDBOX "(SELECT sandbox FROM leases WHERE id = new.lease)"
const char store_schema_outbox_1[] =
    "CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, event TEXT NOT NULL,"
    " sandbox TEXT, outcome TEXT NOT NULL, detail TEXT NOT NULL);"
    "CREATE TRIGGER lease_made AFTER INSERT ON leases BEGIN "
    TELL "'lease.create', new.sandbox, 'ok', json_object(" LEASE ")); END;"
    "CREATE TRIGGER lease_ended AFTER UPDATE OF state ON leases WHEN old.state = 'ACTIVE' AND new.state <> 'ACTIVE' BEGIN "
    TELL "'lease.end', new.sandbox, new.state, json_object(" LEASE ", 'cause', new.cause)); END;"
    "CREATE TRIGGER run_made AFTER INSERT ON runs BEGIN "
    TELL "'run.start', " SANDBOX ", 'ok', json_object(" RUN ")); END;"
    "CREATE TRIGGER run_ended AFTER UPDATE OF state ON runs WHEN old.state = 'RUNNING' AND new.state <> 'RUNNING' BEGIN "
    TELL "'run.end', " SANDBOX ", new.state, json_object(" RUN ", 'reason', new.reason)); END;";
#define CLIENT ", 'client_request_id', (SELECT request FROM leases WHERE id = new.lease)"
#define RUN_OF "(SELECT run FROM runs WHERE lease = new.id)"
const char store_schema_outbox_2[] =
    "DROP TRIGGER lease_ended; DROP TRIGGER run_made; DROP TRIGGER run_ended;"
    "CREATE TRIGGER lease_ended AFTER UPDATE OF state ON leases WHEN old.state = 'ACTIVE' AND new.state <> 'ACTIVE' BEGIN "
    TELL "'lease.end', new.sandbox, new.state, json_object(" LEASE ", 'run_id', " RUN_OF ", 'cause', new.cause)); END;"
    "CREATE TRIGGER run_made AFTER INSERT ON runs BEGIN "
    TELL "'run.start', " SANDBOX ", 'ok', json_object(" RUN CLIENT ")); END;"
    "CREATE TRIGGER run_ended AFTER UPDATE OF state ON runs WHEN old.state = 'RUNNING' AND new.state <> 'RUNNING' BEGIN "
    TELL "'run.end', " SANDBOX ", new.state, json_object(" RUN CLIENT ", 'reason', new.reason)); END;";
/* clang-format on */
