"""Tokens of the second issuer of issuers.sh, one after the other: issuers.py FORGE URL CA BODY

Each line of standard input is what a token is to be otherwise (tests/lib/issuer.py); the code of the answer to its exchange is printed
for each. Each call comes from an address of its own, since refusals make the door slow to an address.
"""
import http.client, json, ssl, sys, urllib.parse

forge, url, ca, body = sys.argv[1:5]
where = urllib.parse.urlsplit(forge)
mint = http.client.HTTPConnection(where.hostname, where.port)
context = ssl.create_default_context(cafile=ca)
context.check_hostname = False
door = urllib.parse.urlsplit(url)
for number, line in enumerate(sys.stdin):
    mint.request("POST", "/token", line.encode())
    token = mint.getresponse().read().decode()
    call = http.client.HTTPSConnection(door.hostname, door.port, context=context, source_address=("127.2.%d.%d" % divmod(number + 1, 250), 0))
    call.request("POST", "/v1/grants", body.encode(), {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    answer = json.loads(call.getresponse().read())
    print(answer.get("error", {}).get("code", "ok"))
    call.close()
