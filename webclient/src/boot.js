// In the document itself, allowed by its digest: a part of the pages that does not come (the line was cut, an interface
// came or went, the daemon is starting anew) would leave an empty window. It is said, and tried again, later each time.
(function () {
  var key = "muxd-loads";
  var tries = Number(sessionStorage.getItem(key)) || 0;
  var failed = false;

  function styleAgain(link) {
    var next = link.cloneNode();
    setTimeout(function () {
      link.replaceWith(next);
    }, 1000);
  }

  /** Not before muxd answers: the browser's own error page would not come back. */
  function ask() {
    fetch(location.pathname, { cache: "no-store" }).then(
      function () {
        location.reload();
      },
      function () {
        later();
      },
    );
  }
  function later() {
    setTimeout(ask, Math.min(15000, 500 * Math.pow(2, tries++)));
  }
  function loadAgain() {
    if (failed) return;
    failed = true;
    document.body.innerText = "muxd does not answer. This page comes back by itself.";
    later();
    sessionStorage.setItem(key, String(tries));
  }

  addEventListener(
    "error",
    function (e) {
      var t = e.target;
      if (t instanceof HTMLLinkElement && t.rel === "stylesheet") styleAgain(t);
      else if (t instanceof HTMLScriptElement) document.readyState === "loading" ? addEventListener("DOMContentLoaded", loadAgain) : loadAgain();
    },
    true,
  );
})();
