"""`./dev gpu status`: which sections have a report that stands, and which are pending."""
from workbench.commands import ROOT
from workbench.gpu.reports import in_order, last_of, read_reports, stands
from workbench.gpu.sections import SECTIONS
from workbench.gpu.sources import sources_hash


def status_lines(root, sections=SECTIONS):
    reports = read_reports(root)
    hashes = {section.name: sources_hash(section.sources, root) for section in sections}
    lines = []
    for name in in_order(hashes, reports):
        last = last_of(name, reports)
        if last is None:
            said = "pending: no report"
        else:
            report, section = last
            where = f"{', '.join(report['cards'])}, {report['date']}"
            if stands(section, hashes[name]):
                said = f"stands: {where}, {section['cases']} cases" + (f", {len(section['skipped'])} things not run" if section["skipped"] else "")
            elif section["sources"] != hashes[name]:
                said = f"pending: its sources changed since {where}"
            else:
                said = f"pending: {section['state']} on {where}"
        lines.append(f"{name:10} {said}")
    return lines


def status(_):
    print("\n".join(status_lines(ROOT)))
